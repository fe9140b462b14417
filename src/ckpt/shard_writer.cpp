#include "ckpt/shard_writer.h"

#include <algorithm>
#include <deque>

#include "base/check.h"
#include "ckpt/shard_plan.h"
#include "sys/files.h"

namespace muster {

Result<std::unique_ptr<ShardWriter>> ShardWriter::make(Files& files, RingOptions options) {
  const size_t piece = options.piece_bytes;
  if (piece == 0 || piece % kChecksumChunk != 0 || options.buffers == 0 ||
      options.buffer_bytes % piece != 0 || options.buffer_bytes == 0) {
    return Error(Code::invalid_argument, "checkpoint ring of " + std::to_string(options.buffers) +
                                             " x " + std::to_string(options.buffer_bytes) +
                                             " bytes in pieces of " + std::to_string(piece) +
                                             ": pieces must be whole MiB and buffers whole pieces");
  }
  auto ring = Arena::make(options.buffers * options.buffer_bytes, true);
  if (!ring.ok()) return std::move(ring).error().context("checkpoint ring");
  return std::unique_ptr<ShardWriter>(new ShardWriter(files, options, *std::move(ring)));
}

ShardWriter::ShardWriter(Files& files, RingOptions options, Arena ring)
    : files_(files), options_(options), ring_(std::move(ring)) {
  const size_t count = options_.buffers * options_.buffer_bytes / options_.piece_bytes;
  for (size_t i = 0; i < count; ++i) {
    auto* memory = static_cast<std::byte*>(ring_.take(options_.piece_bytes));
    MUSTER_CHECK(reinterpret_cast<uintptr_t>(memory) % kDirectAlignment == 0);
    slots_.push_back({.memory = {memory, options_.piece_bytes}});
  }
  worker_ = std::thread([this] { run(); });
}

ShardWriter::~ShardWriter() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  wake_worker_.notify_one();
  worker_.join();
}

Status ShardWriter::begin(SaveRequest request) {
  {
    const std::lock_guard lock(mutex_);
    if (phase_ != Phase::idle)
      return Error(Code::busy, "a checkpoint is still being written; take its result first");
    request_ = std::move(request);
    phase_ = Phase::copying;
  }
  wake_worker_.notify_one();
  return {};
}

void ShardWriter::before_update() {
  std::unique_lock lock(mutex_);
  waiting_ = true;
  wake_owner_.wait(lock, [this] { return phase_ != Phase::copying; });
  waiting_ = false;
}

bool ShardWriter::in_flight() const {
  const std::lock_guard lock(mutex_);
  return phase_ != Phase::idle;
}

std::optional<Result<ShardReport>> ShardWriter::poll() {
  const std::lock_guard lock(mutex_);
  if (phase_ != Phase::done) return std::nullopt;
  phase_ = Phase::idle;
  return std::exchange(result_, std::nullopt);
}

Result<ShardReport> ShardWriter::wait() {
  {
    std::unique_lock lock(mutex_);
    if (phase_ == Phase::idle) return Error(Code::invalid_argument, "no checkpoint was begun");
    wake_owner_.wait(lock, [this] { return phase_ == Phase::done; });
  }
  return *poll();
}

static std::string engine_text(const IoQueue& queue, FileHandle file) {
  return std::string(queue.engine()) + (file.direct ? ", direct" : ", buffered");
}

Result<std::string> ShardWriter::probe_engine(Files& files, const std::string& folder) {
  const std::string path = join_path(folder, ".engine-probe");
  MUSTER_TRY(const auto queue, files.make_queue(1));
  MUSTER_TRY(const FileHandle file, files.open(path, {OpenMode::write_truncate, true}));
  const Status closed = files.close(file);
  MUSTER_TRY(files.remove(path));
  MUSTER_TRY(closed);
  return engine_text(*queue, file);
}

std::string ShardWriter::engine() const {
  const std::lock_guard lock(mutex_);
  return engine_;
}

bool ShardWriter::somebody_waits() const {
  const std::lock_guard lock(mutex_);
  return waiting_;
}
bool ShardWriter::stopping() const {
  const std::lock_guard lock(mutex_);
  return stopping_;
}

void ShardWriter::set_copied() {
  {
    const std::lock_guard lock(mutex_);
    if (phase_ == Phase::copying) phase_ = Phase::writing;
  }
  wake_owner_.notify_one();
}

void ShardWriter::run() {
  for (;;) {
    SaveRequest request;
    {
      std::unique_lock lock(mutex_);
      wake_worker_.wait(lock, [this] { return stopping_ || phase_ == Phase::copying; });
      if (stopping_) return;
      request = std::move(request_);
    }
    auto result = save(request);
    {
      const std::lock_guard lock(mutex_);
      result_ = std::move(result);
      phase_ = Phase::done;
    }
    wake_owner_.notify_one();
  }
}

// One file being written: slots go round from free to copied to in flight.
class ShardWriter::Stream {
 public:
  Stream(ShardWriter& writer, const ShardPlan& plan, FileHandle file, IoQueue& queue)
      : writer_(writer), file_(file), queue_(queue), snapshot_(plan) {
    for (size_t i = 0; i < writer_.slots_.size(); ++i) free_.push_back(i);
  }

  Result<ShardReport> run() {
    const Status moved = move_all();
    // Whatever happened, nothing may be in flight when the slots are used again.
    const Status drained = drain();
    MUSTER_TRY(moved);
    MUSTER_TRY(drained);
    return snapshot_.finish();
  }

 private:
  Status move_all() {
    while (!snapshot_.copied() || !copied_.empty()) {
      if (writer_.stopping()) return Error(Code::cancelled, "the checkpoint writer was stopped");
      const bool can_copy = !snapshot_.copied() && !free_.empty();
      if (can_copy && writer_.somebody_waits()) {
        copied_.push_back(take_slot(&Snapshot::copy));
      } else if (!copied_.empty()) {
        Slot& slot = writer_.slots_[copied_.front()];
        snapshot_.account(slot.memory.first(slot.content));
        MUSTER_TRY(submit(copied_.front()));
        copied_.pop_front();
      } else if (can_copy) {
        MUSTER_TRY(submit(take_slot(&Snapshot::fill)));
      } else {
        MUSTER_TRY(reap());
      }
    }
    while (queue_.in_flight() > 0) MUSTER_TRY(reap());
    return {};
  }

  size_t take_slot(size_t (Snapshot::*how)(std::span<std::byte>)) {
    const size_t index = free_.front();
    free_.pop_front();
    Slot& slot = writer_.slots_[index];
    slot.offset = offset_;
    slot.content = (snapshot_.*how)(slot.memory);
    slot.length = slot.content;
    if (file_.direct)
      slot.length = (slot.length + kDirectAlignment - 1) / kDirectAlignment * kDirectAlignment;
    slot.written = 0;
    offset_ += static_cast<int64_t>(slot.content);
    if (snapshot_.copied()) writer_.set_copied();
    return index;
  }

  Status submit(size_t index) {
    const Slot& slot = writer_.slots_[index];
    return queue_.submit_write(file_, slot.memory.subspan(slot.written, slot.length - slot.written),
                               slot.offset + static_cast<int64_t>(slot.written), index);
  }

  Status reap() {
    MUSTER_TRY(auto completions, queue_.complete());
    for (IoQueue::Completion& completion : completions) {
      Slot& slot = writer_.slots_[completion.token];
      MUSTER_TRY(size_t moved, std::move(completion.transferred));
      if (file_.direct) moved = moved / kDirectAlignment * kDirectAlignment;
      if (moved == 0) return Error(Code::io, "the file system took no byte of a write");
      slot.written += moved;
      if (slot.written < slot.length) {
        MUSTER_TRY(submit(completion.token));
      } else {
        free_.push_back(completion.token);
      }
    }
    return {};
  }

  Status drain() {
    while (queue_.in_flight() > 0) {
      MUSTER_TRY(queue_.complete());
    }
    return {};
  }

  ShardWriter& writer_;
  const FileHandle file_;
  IoQueue& queue_;
  Snapshot snapshot_;
  int64_t offset_ = 0;
  std::deque<size_t> free_, copied_;
};

Result<ShardReport> ShardWriter::write_file(const ShardPlan& plan, FileHandle file) {
  MUSTER_TRY(const auto queue, files_.make_queue(slots_.size()));
  {
    const std::lock_guard lock(mutex_);
    engine_ = engine_text(*queue, file);
  }
  // The full length first: writes inside a file's length need no lock of the file against each
  // other.
  const auto aligned = static_cast<int64_t>(kDirectAlignment);
  const int64_t padded = (plan.size + aligned - 1) / aligned * aligned;
  MUSTER_TRY(files_.truncate(file, file.direct ? padded : plan.size));
  MUSTER_TRY(ShardReport report, Stream(*this, plan, file, *queue).run());
  if (file.direct && padded != plan.size) MUSTER_TRY(files_.truncate(file, plan.size));
  MUSTER_TRY(files_.sync_data(file));
  return report;
}

Result<ShardReport> ShardWriter::save(const SaveRequest& request) {
  MUSTER_TRY(const ShardPlan plan,
             plan_shard(request.slices, request.uuid, request.shard, request.shards));
  const std::string path = join_path(request.folder, plan.report.file.name);
  MUSTER_TRY(const DiskSpace space, files_.space(request.folder));
  if (space.free_bytes < plan.size) {
    return Error(Code::no_space, "checkpoint " + path + " needs " + std::to_string(plan.size) +
                                     " bytes, the disk has " + std::to_string(space.free_bytes) +
                                     "; free some space, the next save tries again");
  }
  MUSTER_TRY(const FileHandle file,
             files_.open(path, {OpenMode::write_new, options_.direct && direct_works_}));
  auto report = write_file(plan, file);
  // A file system that takes the open but not the transfers: do without from the next save on.
  if (!report.ok() && file.direct && report.error().code() == Code::invalid_argument)
    direct_works_ = false;
  const Status closed = files_.close(file);
  if (report.ok() && !closed.ok()) report = closed.error();
  if (report.ok()) {
    const Status named = files_.sync_directory(request.folder);
    if (!named.ok()) report = named.error();
  }
  if (!report.ok()) {
    (void)files_.remove(path);  // best effort: abandon_checkpoint removes the whole folder
    return std::move(report).error().context("writing checkpoint " + path);
  }
  return report;
}

}  // namespace muster
