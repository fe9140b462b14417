#include "comm/communicator.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <condition_variable>
#include <cstring>
#include <optional>
#include <thread>

#include "base/check.h"
#include "comm/operation.h"

namespace muster {
namespace {
constexpr size_t kQueueSlots = 64;
constexpr size_t kUsualParts = 16;  // 2 log2(leaves) of one rank; more make a slot grow once
}  // namespace

// Operations submitted and not yet run, oldest first. `mutex` guards all but the contents of slots:
// a slot is written by the submitter before `submitted` passes it, and read by the runner after.
struct Communicator::Queue {
  std::array<Operation, kQueueSlots> slots;
  std::mutex mutex;
  std::condition_variable changed;
  uint64_t submitted = 0, finished = 0;  // counts; tickets are 1-based
  bool stopping = false;
  std::optional<Error> failure;
  uint64_t good = 0;  // operations finished before the failure
  RankSet missing;
  RankSet blamed;  // by the run in progress
  std::thread progress;
};

Status Work::wait() {
  return group_->wait(ticket_);
}

Communicator::Communicator(Rank rank, int world, const GroupOptions& options)
    : rank_(rank), world_(world), options_(options), queue_(std::make_unique<Queue>()) {
  MUSTER_CHECK(world >= 1 && rank.value >= 0 && rank.value < world, rank.value, world);
  for (Operation& slot : queue_->slots) {
    slot.bounds.reserve(static_cast<size_t>(world) + 1);
    slot.parts.reserve(kUsualParts);
  }
}

Communicator::~Communicator() = default;

void Communicator::stop() {
  {
    const std::lock_guard lock(queue_->mutex);
    queue_->stopping = true;
  }
  queue_->changed.notify_all();
  if (queue_->progress.joinable()) queue_->progress.join();
}

Operation& Communicator::next_slot() {
  Queue& q = *queue_;
  std::unique_lock lock(q.mutex);
  while (q.submitted - q.finished == kQueueSlots) {
    if (options_.progress == Progress::caller)
      run_next(lock);
    else
      q.changed.wait(lock);
  }
  Operation& slot = q.slots[q.submitted % kQueueSlots];
  slot.sequence = q.submitted + 1;
  slot.type = ElementType::bytes;
  slot.op = ReduceOp::sum;
  slot.count = slot.leaves = 0;
  slot.parts.clear();
  slot.bounds.clear();
  slot.in = nullptr;
  slot.out = nullptr;
  return slot;
}

Work Communicator::submit() {
  Queue& q = *queue_;
  const std::lock_guard lock(q.mutex);
  ++q.submitted;
  if (options_.progress == Progress::thread) {
    // Started late, so that a process may fork before its first collective.
    if (!q.progress.joinable() && !q.stopping) q.progress = std::thread([this] { run_queue(); });
    q.changed.notify_all();
  }
  return {this, q.submitted};
}

void Communicator::run_queue() {
  Queue& q = *queue_;
  std::unique_lock lock(q.mutex);
  for (;;) {
    q.changed.wait(lock, [&] { return q.stopping || q.submitted > q.finished; });
    // Waits nobody waits for any more: the group is being destroyed.
    if (q.stopping) return;
    run_next(lock);
  }
}

void Communicator::run_next(std::unique_lock<std::mutex>& lock) {
  Queue& q = *queue_;
  if (!q.failure) {
    const Operation& operation = q.slots[q.finished % kQueueSlots];
    q.blamed = {};
    lock.unlock();
    Status status = run(operation);
    if (!status) {
      const Error error = std::move(status).error();
      RankSet missing;
      {
        const std::lock_guard again(q.mutex);
        missing = q.blamed;
      }
      fail(error, missing);
    }
    lock.lock();
  }
  ++q.finished;
  if (!q.failure) q.good = q.finished;
  q.changed.notify_all();
}

Status Communicator::wait(uint64_t ticket) {
  Queue& q = *queue_;
  std::unique_lock lock(q.mutex);
  const bool waits = q.finished < ticket;
  if (waits && options_.on_wait) options_.on_wait(true);
  while (q.finished < ticket) {
    if (options_.progress == Progress::caller)
      run_next(lock);
    else
      q.changed.wait(lock);
  }
  if (waits && options_.on_wait) options_.on_wait(false);
  if (ticket <= q.good) return {};
  return *q.failure;
}

void Communicator::fail(const Error& error, const RankSet& missing) {
  {
    const std::lock_guard lock(queue_->mutex);
    if (queue_->failure) return;
    queue_->failure = error;
    queue_->missing = missing;
  }
  break_group(error, missing);
}

void Communicator::blame(const RankSet& missing) {
  const std::lock_guard lock(queue_->mutex);
  queue_->blamed = missing;
}

void Communicator::abort(std::string_view reason) {
  fail(Error(Code::cancelled, fmt::format("rank {} ended the group: {}", rank_.value, reason)), {});
}

RankSet Communicator::missing() const {
  const std::lock_guard lock(queue_->mutex);
  return queue_->missing;
}

const MergePlan& Communicator::plan_for(int64_t leaves) {
  std::unique_ptr<MergePlan>& plan = plans_[leaves];
  if (!plan) plan = std::make_unique<MergePlan>(plan_merge(leaves, world_));
  return *plan;
}

template <class T>
Work Communicator::start_reduce(std::span<const T* const> parts, int64_t leaves, int64_t count,
                                ReduceOp op, T* out) {
  // The slot was taken by the caller, who set its bounds and kind.
  Operation& slot = queue_->slots[queue_->submitted % kQueueSlots];
  slot.type = element_type<T>();
  slot.op = op;
  slot.leaves = leaves;
  slot.count = count;
  for (const T* part : parts) slot.parts.push_back(reinterpret_cast<const std::byte*>(part));
  slot.out = reinterpret_cast<std::byte*>(out);
  return submit();
}

namespace {

// Cut so that ranks do not write into one cache line: 16 elements of 4 bytes.
void fill_even_bounds(int64_t count, int world, int64_t grain, std::vector<int64_t>& bounds) {
  const int64_t grains = (count + grain - 1) / grain;
  for (int r = 0; r <= world; ++r) bounds.push_back(std::min(r * grains / world * grain, count));
}

void check_bounds(std::span<const int64_t> bounds, int world) {
  MUSTER_CHECK(bounds.size() == static_cast<size_t>(world) + 1, bounds.size(), world);
  MUSTER_CHECK(bounds.front() == 0 && std::is_sorted(bounds.begin(), bounds.end()), bounds.front());
}

}  // namespace

std::vector<int64_t> even_bounds(int64_t count, int world, int64_t grain) {
  MUSTER_CHECK(count >= 0 && world >= 1 && grain >= 1, count, world, grain);
  std::vector<int64_t> bounds;
  fill_even_bounds(count, world, grain, bounds);
  return bounds;
}

template <class T>
Work Communicator::all_reduce_tree(std::span<const T* const> parts, int64_t leaves,
                                   std::span<T> out) {
  MUSTER_CHECK(leaves >= 1, leaves);
  Operation& slot = next_slot();
  slot.kind = Operation::Kind::reduce_everywhere;
  const auto count = static_cast<int64_t>(out.size());
  fill_even_bounds(count, world_, 16, slot.bounds);
  return start_reduce(parts, leaves, count, ReduceOp::sum, out.data());
}

template <class T>
Work Communicator::reduce_scatter_tree(std::span<const T* const> parts, int64_t leaves,
                                       std::span<const int64_t> bounds, std::span<T> out) {
  MUSTER_CHECK(leaves >= 1, leaves);
  check_bounds(bounds, world_);
  Operation& slot = next_slot();
  slot.kind = Operation::Kind::reduce_slices;
  slot.bounds.assign(bounds.begin(), bounds.end());
  MUSTER_CHECK(static_cast<int64_t>(out.size()) == slot.slice_size(rank_.value), out.size(),
               slot.slice_size(rank_.value));
  return start_reduce(parts, leaves, bounds.back(), ReduceOp::sum, out.data());
}

template <class T>
Work Communicator::all_reduce(std::span<T> data, ReduceOp op) {
  Operation& slot = next_slot();
  slot.kind = Operation::Kind::reduce_everywhere;
  const auto count = static_cast<int64_t>(data.size());
  fill_even_bounds(count, world_, 16, slot.bounds);
  const T* part = data.data();
  return start_reduce(std::span<const T* const>(&part, 1), world_, count, op, data.data());
}

Work Communicator::all_gather(std::span<const std::byte> mine, std::span<const int64_t> bounds,
                              std::span<std::byte> out) {
  check_bounds(bounds, world_);
  Operation& slot = next_slot();
  slot.kind = Operation::Kind::gather;
  slot.bounds.assign(bounds.begin(), bounds.end());
  slot.count = bounds.back();
  MUSTER_CHECK(static_cast<int64_t>(mine.size()) == slot.slice_size(rank_.value), mine.size(),
               slot.slice_size(rank_.value));
  MUSTER_CHECK(static_cast<int64_t>(out.size()) == slot.count, out.size(), slot.count);
  slot.in = mine.data();
  slot.out = out.data();
  return submit();
}

template <class T>
Work Communicator::all_gather(std::span<const T> mine, std::span<const int64_t> bounds,
                              std::span<T> out) {
  check_bounds(bounds, world_);
  Operation& slot = next_slot();
  slot.kind = Operation::Kind::gather;
  for (const int64_t bound : bounds) slot.bounds.push_back(bound * static_cast<int64_t>(sizeof(T)));
  slot.count = slot.bounds.back();
  MUSTER_CHECK(static_cast<int64_t>(mine.size_bytes()) == slot.slice_size(rank_.value),
               mine.size());
  MUSTER_CHECK(static_cast<int64_t>(out.size_bytes()) == slot.count, out.size(), slot.count);
  slot.in = reinterpret_cast<const std::byte*>(mine.data());
  slot.out = reinterpret_cast<std::byte*>(out.data());
  return submit();
}

Work Communicator::broadcast(std::span<std::byte> data, Rank root) {
  MUSTER_CHECK(root.value >= 0 && root.value < world_, root.value, world_);
  Operation& slot = next_slot();
  slot.kind = Operation::Kind::gather;
  slot.count = static_cast<int64_t>(data.size());
  for (int r = 0; r <= world_; ++r) slot.bounds.push_back(r <= root.value ? 0 : slot.count);
  slot.in = data.data();
  slot.out = data.data();
  return submit();
}

Work Communicator::barrier() {
  next_slot().kind = Operation::Kind::barrier;
  return submit();
}

Result<std::vector<std::string>> Communicator::gather_bytes(std::string_view mine) {
  const auto ranks = static_cast<size_t>(world_);
  std::vector<int64_t> ends(ranks + 1);
  for (size_t r = 0; r <= ranks; ++r) ends[r] = static_cast<int64_t>(r);
  std::vector<int64_t> sizes(ranks);
  const auto size = static_cast<int64_t>(mine.size());
  MUSTER_TRY(all_gather<int64_t>(std::span(&size, 1), ends, sizes).wait());

  std::vector<int64_t> bounds(ranks + 1);
  for (size_t r = 0; r < ranks; ++r) bounds[r + 1] = bounds[r] + sizes[r];
  std::string all(static_cast<size_t>(bounds.back()), '\0');
  MUSTER_TRY(all_gather(std::as_bytes(std::span(mine.data(), mine.size())), bounds,
                        std::as_writable_bytes(std::span(all)))
                 .wait());
  std::vector<std::string> messages;
  messages.reserve(ranks);
  for (size_t r = 0; r < ranks; ++r)
    messages.push_back(all.substr(static_cast<size_t>(bounds[r]), static_cast<size_t>(sizes[r])));
  return messages;
}

#define MUSTER_INSTANTIATE(T)                                                                 \
  template Work Communicator::all_reduce_tree<T>(std::span<const T* const>, int64_t,          \
                                                 std::span<T>);                               \
  template Work Communicator::reduce_scatter_tree<T>(std::span<const T* const>, int64_t,      \
                                                     std::span<const int64_t>, std::span<T>); \
  template Work Communicator::all_reduce<T>(std::span<T>, ReduceOp);                          \
  template Work Communicator::all_gather<T>(std::span<const T>, std::span<const int64_t>,     \
                                            std::span<T>);
MUSTER_INSTANTIATE(float)
MUSTER_INSTANTIATE(double)
MUSTER_INSTANTIATE(int64_t)
#undef MUSTER_INSTANTIATE

}  // namespace muster
