// ShardWriter: saves one rank's share of the state while training goes on. Owns a ring of buffers,
// taken once and pre-faulted, and one background thread that copies the state into them, writes
// them past the page cache through an IoQueue, makes the file durable and reports.
//
// Life of a save, on the step thread:
//   begin(request)        returns at once; from here the state must stay constant …
//   before_update()       … until this has returned: every byte is copied (a state larger than the
//                         ring is copied as writes make room)
//   poll() or wait()      the report for the coordinator, or the error; ends the save
// One save at a time: begin is busy until the result of the last one was taken. A failed save
// removes its file, leaves the ring as it was and is never fatal: the next begin starts afresh.
//
// All members are called by one thread. Memory: the ring, and nothing that grows with the state.
#pragma once

#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "base/result.h"
#include "ckpt/manifest.h"
#include "ckpt/snapshot.h"
#include "sys/arena.h"
#include "sys/files.h"

namespace muster {

struct RingOptions {
  size_t buffers = 4;
  size_t buffer_bytes = size_t{32} << 20;
  size_t piece_bytes =
      size_t{4} << 20;  // of one write; divides buffer_bytes, whole checksum chunks
  bool direct = true;   // past the page cache where the file system can
};

struct SaveRequest {
  std::string folder;  // from begin_checkpoint (commit.h); exists
  std::string uuid;
  int shard = 0, shards = 1;
  std::vector<StateSlice> slices;  // this rank's share (slices_of_shard)
};

class ShardWriter {
 public:
  // `files` must outlive it. Errors: no_space for the ring, invalid_argument for its sizes.
  static Result<std::unique_ptr<ShardWriter>> make(Files& files, RingOptions options);
  // Gives up a save in flight (its file is removed) and ends the thread.
  ~ShardWriter();
  ShardWriter(const ShardWriter&) = delete;
  ShardWriter& operator=(const ShardWriter&) = delete;

  // Errors: busy.
  Status begin(SaveRequest request);
  // Blocks until the state may change; at once when no save is in flight or all is copied.
  void before_update();
  bool in_flight() const;  // begun, and its result not yet taken
  // Nothing while the save goes on.
  std::optional<Result<ShardReport>> poll();
  // Errors: invalid_argument when no save was begun; else what went wrong.
  Result<ShardReport> wait();
  // Of the last save that got as far as writing: "io_uring, direct".
  std::string engine() const;
  // What engine() will say of saves into `folder`, found out with an empty file there, which is
  // removed again. Errors: those of making it.
  static Result<std::string> probe_engine(Files& files, const std::string& folder);

 private:
  enum class Phase { idle, copying, writing, done };
  struct Slot {
    std::span<std::byte> memory;
    int64_t offset = 0;  // in the file
    size_t length = 0;   // to be written, padding included
    size_t written = 0;
    size_t content = 0;  // bytes of the file in it
  };
  class Stream;

  ShardWriter(Files& files, RingOptions options, Arena ring);
  void run();
  Result<ShardReport> save(const SaveRequest& request);
  Result<ShardReport> write_file(const ShardPlan& plan, FileHandle file);
  bool somebody_waits() const;
  bool stopping() const;
  void set_copied();

  Files& files_;
  const RingOptions options_;
  Arena ring_;
  std::vector<Slot> slots_;   // the background thread's
  bool direct_works_ = true;  // the background thread's

  mutable std::mutex mutex_;  // guards what follows
  std::condition_variable wake_worker_, wake_owner_;
  Phase phase_ = Phase::idle;
  bool waiting_ = false;  // the owner stands in before_update
  bool stopping_ = false;
  SaveRequest request_;
  std::optional<Result<ShardReport>> result_;
  std::string engine_;

  std::thread worker_;  // last: starts when all else is there
};

}  // namespace muster
