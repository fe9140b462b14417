// Files: the seam to storage. Paths are relative to the root given at construction, so that procfs,
// sysfs or a whole disk can be a recorded tree. Two implementations: RealFiles (real_files.h) and
// SimFiles (sim_files.h), which keeps what a crash may lose apart from what was made durable.
//
// Durability follows POSIX as file systems really behave: written bytes survive a crash only after
// sync_data or sync_file of that file; a created, renamed or removed name survives only after
// sync_directory of its folder.
//
// All functions are safe from any thread unless said otherwise; a FileHandle is used by one thread
// at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/result.h"

namespace muster {

enum class OpenMode {
  read,
  write_new,       // create; already_exists if the name is taken
  write_truncate,  // create or empty
  write_existing,  // read and write, must exist
  append,          // create if missing; writes go to the end
};

struct OpenOptions {
  OpenMode mode = OpenMode::read;
  // Bypass the page cache (O_DIRECT): buffers, offsets and lengths are multiples of
  // kDirectAlignment. Where the file system refuses, open falls back to buffered and
  // FileHandle::direct is false.
  bool direct = false;
};

inline constexpr size_t kDirectAlignment = 4096;

// An open file; owned by the caller and given back to Files::close. Plain value so that it can
// cross queues.
struct FileHandle {
  int id = -1;
  bool direct = false;
};

enum class FileKind { regular, directory, symlink, other };

struct FileStat {
  FileKind kind = FileKind::other;
  int64_t size = 0;
  Nanos modified{0};  // wall clock
};

struct DirectoryEntry {
  std::string name;  // without the folder
  FileKind kind = FileKind::other;
};

struct DiskSpace {
  int64_t free_bytes = 0;  // to this user
  int64_t total_bytes = 0;
};

// An advisory whole-file lock, held until destroyed (and by the kernel no longer than the process
// lives).
class FileLock {
 public:
  virtual ~FileLock() = default;
};

// Asynchronous reads and writes: submit, then wait for completions in any order. One queue serves
// one thread.
class IoQueue {
 public:
  struct Completion {
    uint64_t token;
    Result<size_t> transferred;  // bytes; a short count is the caller's to continue
  };
  virtual ~IoQueue() = default;
  // The buffer belongs to the queue until the completion with `token` comes out. Errors: busy when
  // `depth` are already in flight.
  virtual Status submit_write(FileHandle file, std::span<const std::byte> data, int64_t offset,
                              uint64_t token) = 0;
  virtual Status submit_read(FileHandle file, std::span<std::byte> out, int64_t offset,
                             uint64_t token) = 0;
  // Blocks for at least one completion unless nothing is in flight; returns all that are ready.
  virtual Result<std::vector<Completion>> complete() = 0;
  virtual size_t in_flight() const = 0;
  virtual std::string_view engine() const = 0;  // "io_uring", "threads: <why not io_uring>", "sim"
};

class Files {
 public:
  virtual ~Files() = default;

  virtual Result<FileHandle> open(std::string_view path, OpenOptions options) = 0;
  virtual Status close(FileHandle file) = 0;
  // Reads until `out` is full or the file ends; returns the bytes read.
  virtual Result<size_t> read_at(FileHandle file, std::span<std::byte> out, int64_t offset) = 0;
  // Writes all of `data` or fails.
  virtual Status write_at(FileHandle file, std::span<const std::byte> data, int64_t offset) = 0;
  virtual Status append(FileHandle file, std::span<const std::byte> data) = 0;
  virtual Result<int64_t> size(FileHandle file) = 0;  // also where the path was a symbolic link
  virtual Status truncate(FileHandle file, int64_t length) = 0;
  virtual Status sync_data(FileHandle file) = 0;  // fdatasync
  virtual Status sync_file(FileHandle file) = 0;  // fsync
  virtual Status sync_directory(std::string_view path) = 0;
  virtual Result<std::unique_ptr<IoQueue>> make_queue(size_t depth) = 0;

  virtual Status rename(std::string_view from, std::string_view to) = 0;
  virtual Status remove(std::string_view path) = 0;          // a file or an empty folder
  virtual Status make_directory(std::string_view path) = 0;  // already_exists if it is there
  virtual Result<std::vector<DirectoryEntry>> list(
      std::string_view path) = 0;  // sorted by name, without . and ..
  virtual Result<FileStat> stat(
      std::string_view path) = 0;  // follows no symbolic link at the last part
  virtual Result<DiskSpace> space(std::string_view path) = 0;
  // Errors: busy while another process (or another lock of this one) holds it. Creates the file.
  virtual Result<std::unique_ptr<FileLock>> lock(std::string_view path) = 0;
  // Whether somebody holds it, asked without taking it; false where there is no such file.
  virtual Result<bool> is_locked(std::string_view path) = 0;
};

// Helpers built on the interface alone.
Result<std::string> read_file(Files& files, std::string_view path);
Status make_directories(Files& files, std::string_view path);  // like mkdir -p
Status remove_tree(Files& files, std::string_view path);       // a missing tree is fine
// temp file, write, fsync, rename, fsync of the folder: readers see the old bytes or the new ones,
// also after a crash.
Status write_file_durably(Files& files, std::string_view path, std::string_view text);
std::string join_path(std::string_view folder, std::string_view name);
std::string_view parent_path(std::string_view path);  // "." for a bare name

}  // namespace muster
