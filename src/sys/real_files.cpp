#include "sys/real_files.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "sys/io_queue_engines.h"

namespace muster {
namespace {

Error failed(const char* doing, std::string_view path) {
  const int errno_value = errno;
  std::string what(doing);
  what += ' ';
  what += path;
  return errno_error(errno_value, what);
}

// A message for a handle: the kernel still knows the path.
Error failed(const char* doing, int fd) {
  const int errno_value = errno;
  char path[4096];
  const std::string link = "/proc/self/fd/" + std::to_string(fd);
  const ssize_t length = ::readlink(link.c_str(), path, sizeof path);
  std::string what(doing);
  what += ' ';
  what += length > 0 ? std::string(path, static_cast<size_t>(length)) : link;
  return errno_error(errno_value, what);
}

int flags_of(OpenMode mode) {
  switch (mode) {
    case OpenMode::read:
      return O_RDONLY;
    case OpenMode::write_new:
      return O_WRONLY | O_CREAT | O_EXCL;
    case OpenMode::write_truncate:
      return O_WRONLY | O_CREAT | O_TRUNC;
    case OpenMode::write_existing:
      return O_RDWR;
    case OpenMode::append:
      return O_WRONLY | O_CREAT | O_APPEND;
  }
  return O_RDONLY;
}

FileKind kind_of(mode_t mode) {
  if (S_ISREG(mode)) return FileKind::regular;
  if (S_ISDIR(mode)) return FileKind::directory;
  if (S_ISLNK(mode)) return FileKind::symlink;
  return FileKind::other;
}

FileKind kind_of(const DIR* folder, const dirent& entry) {
  switch (entry.d_type) {
    case DT_REG:
      return FileKind::regular;
    case DT_DIR:
      return FileKind::directory;
    case DT_LNK:
      return FileKind::symlink;
    case DT_UNKNOWN:
      break;  // some file systems do not say
    default:
      return FileKind::other;
  }
  struct stat about{};
  if (::fstatat(::dirfd(const_cast<DIR*>(folder)), entry.d_name, &about, AT_SYMLINK_NOFOLLOW) != 0)
    return FileKind::other;
  return kind_of(about.st_mode);
}

// Held by the open file, not by the process: two locks of one process exclude each other too.
struct flock whole_file() {
  struct flock range{};
  range.l_type = F_WRLCK;
  range.l_whence = SEEK_SET;
  return range;
}

class OfdLock final : public FileLock {
 public:
  explicit OfdLock(int fd) : fd_(fd) {}
  ~OfdLock() override { ::close(fd_); }
  OfdLock(const OfdLock&) = delete;
  OfdLock& operator=(const OfdLock&) = delete;

 private:
  const int fd_;
};

}  // namespace

RealFiles::RealFiles(std::string root, IoEngine engine) : root_(std::move(root)), engine_(engine) {}

Result<std::string> RealFiles::resolve(std::string_view path) const {
  if (path.find('\0') != std::string_view::npos)
    return Error(Code::invalid_argument,
                 "path with a zero byte: " + std::string(path.substr(0, path.find('\0'))));
  if (root_.empty()) return std::string(path);
  for (size_t start = 0; start <= path.size();) {
    const size_t end = std::min(path.find('/', start), path.size());
    if (path.substr(start, end - start) == "..") {
      return Error(Code::invalid_argument,
                   "path " + std::string(path) + " leaves its root " + root_ + " (a '..' part)");
    }
    start = end + 1;
  }
  return root_ + "/" + std::string(path);
}

Result<FileHandle> RealFiles::open(std::string_view path, OpenOptions options) {
  MUSTER_TRY(const std::string full, resolve(path));
  // Files are read by offset, so what comes from a FIFO could not be read: opening one must not
  // wait for a writer. Regular files do not know O_NONBLOCK (open(2)).
  const int reading = options.mode == OpenMode::read ? O_NONBLOCK : 0;
  const int flags = flags_of(options.mode) | O_CLOEXEC | reading;
  if (options.direct) {
    const int fd = ::open(full.c_str(), flags | O_DIRECT, 0666);
    if (fd >= 0) return FileHandle{fd, true};
    // EINVAL: this file system has no direct I/O. It may say so after creating the file.
    if (errno != EINVAL && errno != EOPNOTSUPP) return failed("open", full);
    const int fallback_flags = options.mode == OpenMode::write_new ? flags & ~O_EXCL : flags;
    const int fallback = ::open(full.c_str(), fallback_flags, 0666);
    if (fallback < 0) return failed("open", full);
    return FileHandle{fallback, false};
  }
  const int fd = ::open(full.c_str(), flags, 0666);
  if (fd < 0) return failed("open", full);
  return FileHandle{fd, false};
}

Status RealFiles::close(FileHandle file) {
  // After EINTR Linux has closed the descriptor all the same.
  if (::close(file.id) != 0 && errno != EINTR) return failed("close", file.id);
  return {};
}

Result<size_t> RealFiles::read_at(FileHandle file, std::span<std::byte> out, int64_t offset) {
  size_t done = 0;
  while (done < out.size()) {
    const ssize_t got =
        ::pread(file.id, out.data() + done, out.size() - done, offset + static_cast<int64_t>(done));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return failed("read", file.id);
    if (got == 0) break;
    done += static_cast<size_t>(got);
    // A direct read that ends off the grid has met the end of the file.
    if (file.direct && done % kDirectAlignment != 0) break;
  }
  return done;
}

Status RealFiles::write_at(FileHandle file, std::span<const std::byte> data, int64_t offset) {
  while (!data.empty()) {
    const ssize_t put = ::pwrite(file.id, data.data(), data.size(), offset);
    if (put < 0 && errno == EINTR) continue;
    if (put < 0) return failed("write", file.id);
    if (put == 0) return Error(Code::io, "write: the file system took no byte");
    data = data.subspan(static_cast<size_t>(put));
    offset += put;
  }
  return {};
}

Status RealFiles::append(FileHandle file, std::span<const std::byte> data) {
  while (!data.empty()) {
    const ssize_t put = ::write(file.id, data.data(), data.size());
    if (put < 0 && errno == EINTR) continue;
    if (put < 0) return failed("append to", file.id);
    if (put == 0) return Error(Code::io, "append: the file system took no byte");
    data = data.subspan(static_cast<size_t>(put));
  }
  return {};
}

Result<int64_t> RealFiles::size(FileHandle file) {
  struct stat about{};
  if (::fstat(file.id, &about) != 0) return failed("stat", file.id);
  return static_cast<int64_t>(about.st_size);
}

Status RealFiles::truncate(FileHandle file, int64_t length) {
  while (::ftruncate(file.id, length) != 0) {
    if (errno != EINTR) return failed("truncate", file.id);
  }
  return {};
}

Status RealFiles::sync_data(FileHandle file) {
  if (::fdatasync(file.id) != 0) return failed("fdatasync", file.id);
  return {};
}

Status RealFiles::sync_file(FileHandle file) {
  if (::fsync(file.id) != 0) return failed("fsync", file.id);
  return {};
}

Status RealFiles::sync_directory(std::string_view path) {
  MUSTER_TRY(const std::string full, resolve(path.empty() ? "." : path));
  const int fd = ::open(full.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return failed("open directory", full);
  Status status;
  if (::fsync(fd) != 0) status = failed("fsync directory", full);
  ::close(fd);
  return status;
}

Result<std::unique_ptr<IoQueue>> RealFiles::make_queue(size_t depth) {
  if (engine_ == IoEngine::threads) return make_thread_queue(depth, "asked for");
  auto queue = make_uring_queue(depth);
  if (queue.ok() || queue.error().code() != Code::unsupported) return queue;
  return make_thread_queue(depth, queue.error().message());
}

Status RealFiles::rename(std::string_view from, std::string_view to) {
  MUSTER_TRY(const std::string full_from, resolve(from));
  MUSTER_TRY(const std::string full_to, resolve(to));
  if (::rename(full_from.c_str(), full_to.c_str()) != 0)
    return failed("rename", full_from + " to " + full_to);
  return {};
}

Status RealFiles::remove(std::string_view path) {
  MUSTER_TRY(const std::string full, resolve(path));
  if (::unlink(full.c_str()) == 0) return {};
  if (errno != EISDIR && errno != EPERM) return failed("remove", full);
  const int first = errno;
  if (::rmdir(full.c_str()) == 0) return {};
  if (errno == ENOTDIR) errno = first;
  return failed("remove", full);
}

Status RealFiles::make_directory(std::string_view path) {
  MUSTER_TRY(const std::string full, resolve(path));
  if (::mkdir(full.c_str(), 0777) != 0) return failed("make directory", full);
  return {};
}

Result<std::vector<DirectoryEntry>> RealFiles::list(std::string_view path) {
  MUSTER_TRY(const std::string full, resolve(path.empty() ? "." : path));
  DIR* folder = ::opendir(full.c_str());
  if (folder == nullptr) return failed("list", full);
  std::vector<DirectoryEntry> entries;
  errno = 0;
  while (const dirent* entry = ::readdir(folder)) {
    const std::string_view name = entry->d_name;
    if (name != "." && name != "..")
      entries.push_back({std::string(name), kind_of(folder, *entry)});
    errno = 0;
  }
  const int errno_value = errno;
  ::closedir(folder);
  if (errno_value != 0) return errno_error(errno_value, "list " + full);
  std::sort(entries.begin(), entries.end(),
            [](const auto& a, const auto& b) { return a.name < b.name; });
  return entries;
}

Result<FileStat> RealFiles::stat(std::string_view path) {
  MUSTER_TRY(const std::string full, resolve(path));
  struct stat about{};
  if (::lstat(full.c_str(), &about) != 0) return failed("stat", full);
  FileStat result;
  result.kind = kind_of(about.st_mode);
  result.size = about.st_size;
  result.modified = std::chrono::seconds{about.st_mtim.tv_sec} + Nanos{about.st_mtim.tv_nsec};
  return result;
}

Result<DiskSpace> RealFiles::space(std::string_view path) {
  MUSTER_TRY(const std::string full, resolve(path.empty() ? "." : path));
  struct statvfs about{};
  if (::statvfs(full.c_str(), &about) != 0) return failed("statvfs", full);
  const auto block = static_cast<int64_t>(about.f_frsize);
  return DiskSpace{static_cast<int64_t>(about.f_bavail) * block,
                   static_cast<int64_t>(about.f_blocks) * block};
}

Result<std::unique_ptr<FileLock>> RealFiles::lock(std::string_view path) {
  MUSTER_TRY(const std::string full, resolve(path));
  const int fd = ::open(full.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
  if (fd < 0) return failed("open lock file", full);
  struct flock whole = whole_file();
  if (::fcntl(fd, F_OFD_SETLK, &whole) == 0)
    return std::unique_ptr<FileLock>(std::make_unique<OfdLock>(fd));
  const int errno_value = errno;
  ::close(fd);
  if (errno_value == EAGAIN || errno_value == EACCES)
    return Error(Code::busy, "lock " + full + ": held by another user");
  return errno_error(errno_value, "lock " + full);
}

Result<bool> RealFiles::is_locked(std::string_view path) {
  MUSTER_TRY(const std::string full, resolve(path));
  const int fd = ::open(full.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) {
    if (errno == ENOENT) return false;
    return failed("open lock file", full);
  }
  struct flock whole = whole_file();
  const int asked = ::fcntl(fd, F_OFD_GETLK, &whole);
  const int errno_value = errno;
  ::close(fd);
  if (asked != 0) return errno_error(errno_value, "ask for the lock " + full);
  return whole.l_type != F_UNLCK;
}

}  // namespace muster
