#include "sys/sim_files.h"

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace muster {
namespace {

Error sim_error(int errno_value, std::string_view doing, std::string_view path) {
  return errno_error(errno_value, std::string(doing) + " " + std::string(path));
}

// "a/b//c" -> {"a", "b", "c"}; "." and empty parts vanish.
Result<std::vector<std::string>> parts_of(std::string_view path) {
  std::vector<std::string> parts;
  for (size_t start = 0; start <= path.size();) {
    const size_t end = std::min(path.find('/', start), path.size());
    const std::string_view part = path.substr(start, end - start);
    if (part == "..") return sim_error(EINVAL, "'..' is not simulated:", path);
    if (!part.empty() && part != ".") parts.emplace_back(part);
    start = end + 1;
  }
  return parts;
}

std::string joined(const std::vector<std::string>& parts) {
  std::string path;
  for (const std::string& part : parts) path += (path.empty() ? "" : "/") + part;
  return path;
}

}  // namespace

class SimFiles::SimLock final : public FileLock {
 public:
  SimLock(std::shared_ptr<Locks> locks, std::string key)
      : locks_(std::move(locks)), key_(std::move(key)) {}
  ~SimLock() override {
    const std::lock_guard lock(locks_->mutex);
    locks_->held.erase(key_);
  }

 private:
  std::shared_ptr<Locks> locks_;
  std::string key_;
};

// Completes in reverse order of submission within each batch, so that nobody relies on the order.
class SimQueue final : public IoQueue {
 public:
  SimQueue(SimFiles& files, size_t depth) : files_(files), depth_(depth) {}

  Status submit_write(FileHandle file, std::span<const std::byte> data, int64_t offset,
                      uint64_t token) override {
    MUSTER_TRY(check_room());
    const std::lock_guard lock(files_.mutex_);
    Request request{token, file,     data, std::vector<std::byte>(data.begin(), data.end()),
                    0,     size_t{0}};
    size_t length = data.size();
    if (files_.short_transfers_ && length > kDirectAlignment) {
      length = length / 2 / kDirectAlignment * kDirectAlignment;
      length = std::max(length, kDirectAlignment);
    }
    size_t taken = 0;
    auto write = files_.begin_write(file, data.first(length), offset, taken);
    if (write.ok()) {
      request.write_id = *write;
      request.outcome = taken;
    } else {
      request.outcome = write.error();
    }
    requests_.push_back(std::move(request));
    return {};
  }

  Status submit_read(FileHandle file, std::span<std::byte> out, int64_t offset,
                     uint64_t token) override {
    MUSTER_TRY(check_room());
    const std::lock_guard lock(files_.mutex_);
    size_t length = out.size();
    if (files_.short_transfers_ && length > kDirectAlignment) length = kDirectAlignment;
    requests_.push_back(
        {token, file, {}, {}, 0, files_.read_locked(file, out.first(length), offset)});
    return {};
  }

  Result<std::vector<Completion>> complete() override {
    const std::lock_guard lock(files_.mutex_);
    std::vector<Completion> done;
    for (auto request = requests_.rbegin(); request != requests_.rend(); ++request) {
      if (!std::equal(request->data.begin(), request->data.end(), request->submitted.begin()))
        ++files_.buffers_changed_;
      if (request->write_id != 0) files_.end_write(request->file, request->write_id);
      done.push_back({request->token, std::move(request->outcome)});
    }
    requests_.clear();
    return done;
  }

  size_t in_flight() const override { return requests_.size(); }
  std::string_view engine() const override { return "sim"; }

 private:
  struct Request {
    uint64_t token;
    FileHandle file;
    std::span<const std::byte> data;
    std::vector<std::byte> submitted;
    uint64_t write_id;
    Result<size_t> outcome;
  };
  Status check_room() const {
    if (requests_.size() < depth_) return {};
    return Error(Code::busy, "io queue: " + std::to_string(depth_) + " requests are in flight");
  }

  SimFiles& files_;
  const size_t depth_;
  std::vector<Request> requests_;
};

SimFiles::SimFiles(Clock& clock) : clock_(clock) {}
SimFiles::SimFiles(Clock& clock, SimDisk disk) : clock_(clock), disk_(std::move(disk)) {}

void SimFiles::start_recording() {
  const std::lock_guard lock(mutex_);
  recording_ = true;
  recorded_from_ = disk_;
  recorded_.clear();
}
SimDisk SimFiles::recorded_from() const {
  const std::lock_guard lock(mutex_);
  return recorded_from_;
}
std::vector<DiskOp> SimFiles::recorded() const {
  const std::lock_guard lock(mutex_);
  return recorded_;
}
SimDisk SimFiles::disk() const {
  const std::lock_guard lock(mutex_);
  return disk_;
}
uint64_t SimFiles::operations() const {
  const std::lock_guard lock(mutex_);
  return operations_;
}
uint64_t SimFiles::reads() const {
  const std::lock_guard lock(mutex_);
  return reads_;
}
uint64_t SimFiles::buffers_changed_in_flight() const {
  const std::lock_guard lock(mutex_);
  return buffers_changed_;
}
void SimFiles::fail_operations(uint64_t first, uint64_t count, int errno_value) {
  const std::lock_guard lock(mutex_);
  faults_.push_back({first, count, errno_value});
}
void SimFiles::fail_reads(uint64_t first, uint64_t count, int errno_value) {
  const std::lock_guard lock(mutex_);
  read_faults_.push_back({first, count, errno_value});
}
void SimFiles::clear_faults() {
  const std::lock_guard lock(mutex_);
  faults_.clear();
  read_faults_.clear();
}
void SimFiles::set_capacity(int64_t bytes) {
  const std::lock_guard lock(mutex_);
  capacity_ = bytes;
}
void SimFiles::make_transfers_short(bool on) {
  const std::lock_guard lock(mutex_);
  short_transfers_ = on;
}
void SimFiles::refuse_direct(bool on) {
  const std::lock_guard lock(mutex_);
  refuse_direct_ = on;
}

Result<NameSlot> SimFiles::slot_of(std::string_view path) const {
  MUSTER_TRY(auto parts, parts_of(path));
  if (parts.empty()) return sim_error(EBUSY, "the root itself:", path);
  NameSlot slot{kRootInode, parts.back()};
  parts.pop_back();
  for (const std::string& part : parts) {
    const auto next = disk_.lookup({slot.folder, part});
    if (!next) return sim_error(ENOENT, "look up", path);
    if (!disk_.find(*next)->folder) return sim_error(ENOTDIR, "look up", path);
    slot.folder = *next;
  }
  return slot;
}

Result<InodeId> SimFiles::inode_of(std::string_view path) const {
  MUSTER_TRY(const auto parts, parts_of(path));
  if (parts.empty()) return kRootInode;
  MUSTER_TRY(const NameSlot slot, slot_of(path));
  const auto inode = disk_.lookup(slot);
  if (!inode) return sim_error(ENOENT, "look up", path);
  return *inode;
}

Status SimFiles::count_operation(const std::string& text) {
  const uint64_t index = operations_++;
  for (const FaultRange& fault : faults_)
    if (fault.covers(index)) return errno_error(fault.errno_value, text);
  return {};
}

void SimFiles::commit(DiskOp op) {
  disk_.apply(op, clock_.wall());
  if (recording_) recorded_.push_back(std::move(op));
}

Status SimFiles::perform(DiskOp op) {
  MUSTER_TRY(count_operation(op.text));
  commit(std::move(op));
  if (disk_.inodes() > 2 * inodes_at_last_collection_) {
    std::set<InodeId> open;
    for (const auto& [handle, file] : open_) open.insert(file.inode);
    disk_.collect_garbage(open);
    inodes_at_last_collection_ = std::max<size_t>(64, disk_.inodes());
  }
  return {};
}

Result<InodeId> SimFiles::make_inode(std::string_view path, DiskOp::Kind kind) {
  MUSTER_TRY(NameSlot slot, slot_of(path));
  DiskOp op{.kind = kind, .inode = disk_.fresh_inode()};
  op.to = std::move(slot);
  op.text = (kind == DiskOp::Kind::make_folder ? "make directory " : "create ") + std::string(path);
  const InodeId inode = op.inode;
  MUSTER_TRY(perform(std::move(op)));
  return inode;
}

Result<FileHandle> SimFiles::open(std::string_view path, OpenOptions options) {
  const std::lock_guard lock(mutex_);
  auto existing = inode_of(path);
  if (!existing.ok() && existing.error().code() != Code::not_found) return existing.error();
  const OpenMode mode = options.mode;
  InodeId inode = 0;
  if (existing.ok()) {
    inode = *existing;
    if (mode == OpenMode::write_new) return sim_error(EEXIST, "open", path);
    if (disk_.find(inode)->folder) return sim_error(EISDIR, "open", path);
    if (mode == OpenMode::write_truncate && !disk_.find(inode)->bytes.empty()) {
      MUSTER_TRY(perform({.kind = DiskOp::Kind::truncate,
                          .inode = inode,
                          .text = "truncate " + std::string(path)}));
    }
  } else {
    if (mode == OpenMode::read || mode == OpenMode::write_existing)
      return sim_error(ENOENT, "open", path);
    MUSTER_TRY(inode, make_inode(path, DiskOp::Kind::make_file));
  }
  const bool direct = options.direct && !refuse_direct_;
  const bool readable = mode == OpenMode::read || mode == OpenMode::write_existing;
  open_[next_handle_] = {inode, readable, mode != OpenMode::read, direct, std::string(path)};
  return FileHandle{next_handle_++, direct};
}

Result<SimFiles::OpenFile*> SimFiles::open_file(FileHandle file, bool writing) {
  const auto found = open_.find(file.id);
  if (found == open_.end()) return sim_error(EBADF, "handle", std::to_string(file.id));
  if (writing ? !found->second.writable : !found->second.readable)
    return sim_error(EBADF, writing ? "write" : "read", found->second.path);
  return &found->second;
}

Status SimFiles::close(FileHandle file) {
  const std::lock_guard lock(mutex_);
  if (open_.erase(file.id) == 0) return sim_error(EBADF, "close handle", std::to_string(file.id));
  return {};
}

Status SimFiles::check_direct(const OpenFile& file, const void* data, size_t length,
                              int64_t offset) const {
  const bool aligned = reinterpret_cast<uintptr_t>(data) % kDirectAlignment == 0 &&
                       length % kDirectAlignment == 0 &&
                       static_cast<size_t>(offset) % kDirectAlignment == 0;
  if (file.direct && !aligned) return sim_error(EINVAL, "direct transfer off the grid:", file.path);
  return {};
}

Result<size_t> SimFiles::read_locked(FileHandle file, std::span<std::byte> out, int64_t offset) {
  MUSTER_TRY(const OpenFile* open, open_file(file, false));
  MUSTER_TRY(check_direct(*open, out.data(), out.size(), offset));
  const uint64_t index = reads_++;
  for (const FaultRange& fault : read_faults_)
    if (fault.covers(index)) return sim_error(fault.errno_value, "read", open->path);
  const std::vector<std::byte>& bytes = disk_.find(open->inode)->bytes;
  const size_t begin = std::min(static_cast<size_t>(offset), bytes.size());
  const size_t count = std::min(out.size(), bytes.size() - begin);
  std::copy_n(bytes.begin() + static_cast<std::ptrdiff_t>(begin), count, out.begin());
  return count;
}

Result<size_t> SimFiles::read_at(FileHandle file, std::span<std::byte> out, int64_t offset) {
  const std::lock_guard lock(mutex_);
  return read_locked(file, out, offset);
}

size_t SimFiles::fitting(InodeId inode, int64_t offset, size_t length) const {
  if (capacity_ == INT64_MAX) return length;
  const auto size = static_cast<int64_t>(disk_.find(inode)->bytes.size());
  const int64_t room = std::max<int64_t>(0, capacity_ - disk_.used_bytes());
  const int64_t fits = size + room - offset;  // bytes inside the file are paid for
  if (fits >= static_cast<int64_t>(length)) return length;
  return static_cast<size_t>(std::max<int64_t>(0, fits)) / 512 * 512;
}

Result<uint64_t> SimFiles::begin_write(FileHandle file, std::span<const std::byte> data,
                                       int64_t offset, size_t& taken) {
  MUSTER_TRY(const OpenFile* open, open_file(file, true));
  MUSTER_TRY(check_direct(*open, data.data(), data.size(), offset));
  taken = fitting(open->inode, offset, data.size());
  if (taken == 0 && !data.empty()) return sim_error(ENOSPC, "write", open->path);
  DiskOp op{.kind = DiskOp::Kind::write_begin, .inode = open->inode};
  op.write_id = next_write_++;
  op.offset = offset;
  op.data = std::make_shared<const std::vector<std::byte>>(
      data.begin(), data.begin() + static_cast<std::ptrdiff_t>(taken));
  op.text =
      "write " + open->path + " [" + std::to_string(offset) + ", +" + std::to_string(taken) + ")";
  const uint64_t id = op.write_id;
  MUSTER_TRY(perform(std::move(op)));
  return id;
}

void SimFiles::end_write(FileHandle file, uint64_t write_id) {
  const auto open = open_.find(file.id);
  MUSTER_CHECK(open != open_.end(), "file closed while a write was in flight", write_id);
  commit({.kind = DiskOp::Kind::write_end, .inode = open->second.inode, .write_id = write_id});
}

Status SimFiles::write_at(FileHandle file, std::span<const std::byte> data, int64_t offset) {
  const std::lock_guard lock(mutex_);
  size_t taken = 0;
  MUSTER_TRY(const uint64_t id, begin_write(file, data, offset, taken));
  end_write(file, id);
  if (taken < data.size()) return sim_error(ENOSPC, "write", open_.at(file.id).path);
  return {};
}

Status SimFiles::append(FileHandle file, std::span<const std::byte> data) {
  int64_t end = 0;
  {
    const std::lock_guard lock(mutex_);
    MUSTER_TRY(const OpenFile* open, open_file(file, true));
    end = static_cast<int64_t>(disk_.find(open->inode)->bytes.size());
  }
  return write_at(file, data, end);
}

Result<int64_t> SimFiles::size(FileHandle file) {
  const std::lock_guard lock(mutex_);
  const auto open = open_.find(file.id);
  if (open == open_.end()) return sim_error(EBADF, "size of handle", std::to_string(file.id));
  return static_cast<int64_t>(disk_.find(open->second.inode)->bytes.size());
}

Status SimFiles::truncate(FileHandle file, int64_t length) {
  const std::lock_guard lock(mutex_);
  MUSTER_TRY(const OpenFile* open, open_file(file, true));
  DiskOp op{.kind = DiskOp::Kind::truncate, .inode = open->inode};
  op.offset = length;
  op.text = "truncate " + open->path + " to " + std::to_string(length);
  return perform(std::move(op));
}

Status SimFiles::sync(FileHandle file, const char* what) {
  const std::lock_guard lock(mutex_);
  const auto open = open_.find(file.id);
  if (open == open_.end()) return sim_error(EBADF, what, std::to_string(file.id));
  return perform({.kind = DiskOp::Kind::sync_file,
                  .inode = open->second.inode,
                  .text = std::string(what) + " " + open->second.path});
}
Status SimFiles::sync_data(FileHandle file) {
  return sync(file, "fdatasync");
}
Status SimFiles::sync_file(FileHandle file) {
  return sync(file, "fsync");
}

Status SimFiles::sync_directory(std::string_view path) {
  const std::lock_guard lock(mutex_);
  MUSTER_TRY(const InodeId inode, inode_of(path));
  if (!disk_.find(inode)->folder) return sim_error(ENOTDIR, "fsync directory", path);
  return perform({.kind = DiskOp::Kind::sync_folder,
                  .inode = inode,
                  .text = "fsync directory " + std::string(path)});
}

Result<std::unique_ptr<IoQueue>> SimFiles::make_queue(size_t depth) {
  return std::unique_ptr<IoQueue>(std::make_unique<SimQueue>(*this, depth));
}

Status SimFiles::rename(std::string_view from, std::string_view to) {
  const std::lock_guard lock(mutex_);
  MUSTER_TRY(const InodeId inode, inode_of(from));
  DiskOp op{.kind = DiskOp::Kind::rename, .inode = inode};
  MUSTER_TRY(op.from, slot_of(from));
  MUSTER_TRY(op.to, slot_of(to));
  op.text = "rename " + std::string(from) + " to " + std::string(to);
  if (op.from == op.to) return {};
  MUSTER_TRY(const auto from_parts, parts_of(from));
  MUSTER_TRY(const auto to_parts, parts_of(to));
  if ((joined(to_parts) + "/").starts_with(joined(from_parts) + "/"))
    return errno_error(EINVAL, op.text);
  if (const auto target = disk_.lookup(op.to)) {
    const SimDisk::Inode& there = *disk_.find(*target);
    const bool folder = disk_.find(inode)->folder;
    if (folder && !there.folder) return errno_error(ENOTDIR, op.text);
    if (!folder && there.folder) return errno_error(EISDIR, op.text);
    if (folder && !there.entries.empty()) return errno_error(ENOTEMPTY, op.text);
  }
  return perform(std::move(op));
}

Status SimFiles::remove(std::string_view path) {
  const std::lock_guard lock(mutex_);
  MUSTER_TRY(const InodeId inode, inode_of(path));
  DiskOp op{.kind = DiskOp::Kind::remove, .inode = inode};
  MUSTER_TRY(op.from, slot_of(path));
  op.text = "remove " + std::string(path);
  if (!disk_.find(inode)->entries.empty()) return errno_error(ENOTEMPTY, op.text);
  return perform(std::move(op));
}

Status SimFiles::make_directory(std::string_view path) {
  const std::lock_guard lock(mutex_);
  if (inode_of(path).ok()) return sim_error(EEXIST, "make directory", path);
  MUSTER_TRY(const InodeId inode, make_inode(path, DiskOp::Kind::make_folder));
  static_cast<void>(inode);
  return {};
}

Result<std::vector<DirectoryEntry>> SimFiles::list(std::string_view path) {
  const std::lock_guard lock(mutex_);
  MUSTER_TRY(const InodeId inode, inode_of(path));
  const SimDisk::Inode& folder = *disk_.find(inode);
  if (!folder.folder) return sim_error(ENOTDIR, "list", path);
  std::vector<DirectoryEntry> entries;
  for (const auto& [name, child] : folder.entries) {
    entries.push_back({name, disk_.find(child)->folder ? FileKind::directory : FileKind::regular});
  }
  return entries;
}

Result<FileStat> SimFiles::stat(std::string_view path) {
  const std::lock_guard lock(mutex_);
  MUSTER_TRY(const InodeId id, inode_of(path));
  const SimDisk::Inode& inode = *disk_.find(id);
  return FileStat{inode.folder ? FileKind::directory : FileKind::regular,
                  static_cast<int64_t>(inode.bytes.size()), inode.modified};
}

Result<DiskSpace> SimFiles::space(std::string_view path) {
  const std::lock_guard lock(mutex_);
  MUSTER_TRY(const InodeId inode, inode_of(path));
  static_cast<void>(inode);
  const int64_t used = disk_.used_bytes();
  if (capacity_ == INT64_MAX) return DiskSpace{INT64_MAX - used, INT64_MAX};
  return DiskSpace{std::max<int64_t>(0, capacity_ - used), capacity_};
}

Result<std::unique_ptr<FileLock>> SimFiles::lock(std::string_view path) {
  MUSTER_TRY(const auto parts, parts_of(path));
  const std::string key = joined(parts);
  {
    const std::lock_guard lock(mutex_);
    const auto existing = inode_of(path);
    if (!existing.ok()) {
      if (existing.error().code() != Code::not_found) return existing.error();
      MUSTER_TRY(const InodeId made, make_inode(path, DiskOp::Kind::make_file));
      static_cast<void>(made);
    }
  }
  const std::lock_guard lock(locks_->mutex);
  if (!locks_->held.insert(key).second)
    return Error(Code::busy, "lock " + std::string(path) + ": held by another user");
  return std::unique_ptr<FileLock>(std::make_unique<SimLock>(locks_, key));
}

Result<bool> SimFiles::is_locked(std::string_view path) {
  MUSTER_TRY(const auto parts, parts_of(path));
  const std::lock_guard lock(locks_->mutex);
  return locks_->held.contains(joined(parts));
}

}  // namespace muster
