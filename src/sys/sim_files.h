// SimFiles: a whole file system in memory, with faults on demand and a recording of every change,
// from which SimDisk (sim_disk.h) tells what a crash at any moment may leave. No symbolic links.
//
// Safe from any thread (one mutex); paths are relative to its root, with or without a leading '/'.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "base/clock.h"
#include "sys/files.h"
#include "sys/sim_disk.h"

namespace muster {

class SimFiles final : public Files {
 public:
  // `clock` must outlive it and gives the times of files.
  explicit SimFiles(Clock& clock);
  // Powered on with what `disk` holds, e.g. a crash image.
  SimFiles(Clock& clock, SimDisk disk);

  // --- recording ---
  // From now on every change is kept. The state before is `recorded_from()`; applying the first n
  // of `recorded()` to it gives the disk at any later moment.
  void start_recording();
  SimDisk recorded_from() const;
  std::vector<DiskOp> recorded() const;
  SimDisk disk() const;  // as it is now

  // --- faults ---
  // Operations are counted from 0 from construction: every change and every sync (not reads).
  uint64_t operations() const;
  // Operations [first, first + count) fail with this errno; a failing write takes no byte.
  void fail_operations(uint64_t first, uint64_t count, int errno_value);
  // Reads counted likewise.
  void fail_reads(uint64_t first, uint64_t count, int errno_value);
  uint64_t reads() const;
  void clear_faults();
  // Sum of all file lengths; a write that does not fit takes the 512-byte sectors that do, then
  // fails with no_space.
  void set_capacity(int64_t bytes);
  // Queue transfers of more than one kDirectAlignment block end short, on a block boundary.
  void make_transfers_short(bool on);
  // Direct opens fall back to buffered ones.
  void refuse_direct(bool on);
  // Times a queue's buffer differed at completion from what it was at submission: a bug in the
  // caller.
  uint64_t buffers_changed_in_flight() const;

  // --- Files ---
  Result<FileHandle> open(std::string_view path, OpenOptions options) override;
  Status close(FileHandle file) override;
  Result<size_t> read_at(FileHandle file, std::span<std::byte> out, int64_t offset) override;
  Status write_at(FileHandle file, std::span<const std::byte> data, int64_t offset) override;
  Status append(FileHandle file, std::span<const std::byte> data) override;
  Result<int64_t> size(FileHandle file) override;
  Status truncate(FileHandle file, int64_t length) override;
  Status sync_data(FileHandle file) override;
  Status sync_file(FileHandle file) override;
  Status sync_directory(std::string_view path) override;
  Result<std::unique_ptr<IoQueue>> make_queue(size_t depth) override;
  Status rename(std::string_view from, std::string_view to) override;
  Status remove(std::string_view path) override;
  Status make_directory(std::string_view path) override;
  Result<std::vector<DirectoryEntry>> list(std::string_view path) override;
  Result<FileStat> stat(std::string_view path) override;
  Result<DiskSpace> space(std::string_view path) override;
  Result<std::unique_ptr<FileLock>> lock(std::string_view path) override;
  Result<bool> is_locked(std::string_view path) override;

 private:
  friend class SimQueue;
  struct OpenFile {
    InodeId inode = 0;
    bool readable = false, writable = false, direct = false;
    std::string path;
  };
  struct FaultRange {
    uint64_t first = 0, count = 0;
    int errno_value = 0;
    bool covers(uint64_t index) const { return index >= first && index - first < count; }
  };
  struct Locks {
    std::mutex mutex;
    std::set<std::string> held;
  };
  class SimLock;

  // All below expect `mutex_` held.
  Result<NameSlot> slot_of(std::string_view path) const;
  Result<InodeId> inode_of(std::string_view path) const;
  Result<OpenFile*> open_file(FileHandle file, bool writing);
  Result<InodeId> make_inode(std::string_view path, DiskOp::Kind kind);
  // Counts the operation, fails it if a fault says so, else applies and records it.
  Status perform(DiskOp op);
  Status count_operation(const std::string& text);
  void commit(DiskOp op);
  // Bytes of a write at `offset` that the capacity allows.
  size_t fitting(InodeId inode, int64_t offset, size_t length) const;
  Status check_direct(const OpenFile& file, const void* data, size_t length, int64_t offset) const;
  Status sync(FileHandle file, const char* what);
  Result<uint64_t> begin_write(FileHandle file, std::span<const std::byte> data, int64_t offset,
                               size_t& taken);
  void end_write(FileHandle file, uint64_t write_id);
  Result<size_t> read_locked(FileHandle file, std::span<std::byte> out, int64_t offset);

  Clock& clock_;
  mutable std::mutex mutex_;
  SimDisk disk_;
  std::map<int, OpenFile> open_;
  int next_handle_ = 3;
  uint64_t next_write_ = 1;
  std::shared_ptr<Locks> locks_ = std::make_shared<Locks>();
  bool recording_ = false;
  SimDisk recorded_from_;
  std::vector<DiskOp> recorded_;
  uint64_t operations_ = 0, reads_ = 0, buffers_changed_ = 0;
  std::vector<FaultRange> faults_, read_faults_;
  int64_t capacity_ = INT64_MAX;
  bool short_transfers_ = false, refuse_direct_ = false;
  size_t inodes_at_last_collection_ = 64;
};

}  // namespace muster
