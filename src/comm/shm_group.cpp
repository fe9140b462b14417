#include "comm/shm_group.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <functional>

#include "base/units.h"
#include "comm/operation.h"
#include "sys/pidfd.h"

namespace muster {
namespace {

using namespace std::chrono_literals;

constexpr int kSpins = 100;
constexpr Nanos kLivenessCheck = 100ms;
constexpr uint32_t kPhaseMask = ~ShmSegment::kBrokenBit;
// Results larger than this per rank do not stay in the cache until they are used.
constexpr int64_t kStreamingBytes = int64_t{8} << 20;

// a is at or past b, in 31 wrapping bits.
bool reached(uint32_t a, uint32_t b) {
  return ((a - b) & kPhaseMask) < 0x4000'0000u;
}

void pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

class ShmGroup final : public Communicator {
 public:
  ShmGroup(const Clock& clock, std::shared_ptr<ShmSegment> segment, Rank rank,
           const GroupOptions& options)
      : Communicator(rank, segment->world(), options),
        clock_(clock),
        segment_(std::move(segment)),
        me_(rank.value) {
    pidfds_.resize(static_cast<size_t>(world()));
  }

  ~ShmGroup() override {
    if (world() > 1 && joined_) abort("it left the group");
    stop();
  }

  std::string_view backend() const override { return "shm"; }

  Status join();
  Result<std::span<std::byte>> shared_alloc(int64_t bytes) override;

 private:
  // How one reduction or gathering goes, equal on all ranks.
  struct Rounds {
    bool staged_parts = false;    // some rank's parts lie outside the segment
    bool staged_results = false;  // some rank's out does
    int64_t per_round = 0;        // elements of every slice in one round
    int64_t count = 0;
  };

  Status run(const Operation& operation) override;
  void break_group(const Error& error, const RankSet& missing) override {
    segment_->break_group(error, missing);
  }

  Status run_operation(const Operation& operation);
  Status enter(const Operation& operation);
  Status reduce(const Operation& operation);
  Rounds reduce_rounds(const Operation& operation, const MergePlan& plan) const;
  void stage_parts(const Operation& operation, const Rounds& rounds, int64_t from);
  void reduce_slice(const Operation& operation, const MergePlan& plan, const Rounds& rounds,
                    int64_t from);
  void take_results(const Operation& operation, const Rounds& rounds, int64_t from);
  Status gather(const Operation& operation);
  // Staging of a rank: its result, then for each of its parts one area per reader.
  std::byte* staged_result(int owner) const { return segment_->staging(owner); }
  std::byte* staged_part(int64_t area_bytes, int owner, int32_t part_of_owner, int reader) const {
    return segment_->staging(owner) + (int64_t{part_of_owner} * world() + reader + 1) * area_bytes;
  }

  // Tells the others that this rank got here, and waits until they have.
  Status sync();
  Status wait_for(int peer, uint32_t phase);
  Status group_broken();
  Status check_alive();
  RankSet late_ranks(uint32_t phase) const;
  const ShmSegment::Descriptor& descriptor(int rank) const {
    return segment_->control(rank).descriptor;
  }

  const Clock& clock_;
  std::shared_ptr<ShmSegment> segment_;
  int me_;
  bool joined_ = false;
  uint32_t phase_ = 0;
  Nanos deadline_{0};
  const Operation* current_ = nullptr;  // for messages; none while joining
  std::vector<OwnedFd> pidfds_;         // of the peers; not valid for threads of this process
  int64_t arena_used_ = 0;
  std::vector<const std::byte*> sources_;
  std::vector<std::byte*> outs_;
  std::vector<std::byte> scratch_storage_;
};

Status ShmGroup::join() {
  ShmSegment::Control& mine = segment_->control(me_);
  int32_t nobody = 0;
  if (!mine.pid.compare_exchange_strong(nobody, ::getpid()))
    return Error(
        Code::already_exists,
        fmt::format("rank {} joined this shared segment before; every attempt needs a new one",
                    me_));
  deadline_ = clock_.now() + options().timeout;
  Status status = sync();
  if (!status) {
    // Those still to come must not wait for a rank that gave up.
    RankSet missing;
    segment_->break_group(status.error(), missing);
    return status;
  }
  joined_ = true;
  for (int r = 0; r < world(); ++r) {
    const int32_t pid = segment_->control(r).pid.load();
    if (pid != ::getpid()) pidfds_[static_cast<size_t>(r)] = open_pidfd(pid);
  }
  return {};
}

Result<std::span<std::byte>> ShmGroup::shared_alloc(int64_t bytes) {
  MUSTER_CHECK(bytes >= 0, bytes);
  constexpr int64_t kPage = 4096;
  const std::span<std::byte> arena = segment_->arena(me_);
  const int64_t rounded = (bytes + kPage - 1) / kPage * kPage;
  if (rounded > static_cast<int64_t>(arena.size()) - arena_used_)
    return Error(
        Code::no_space,
        fmt::format("{} of shared memory asked for, {} of {} are left", format_bytes(Bytes{bytes}),
                    format_bytes(Bytes{static_cast<int64_t>(arena.size()) - arena_used_}),
                    format_bytes(Bytes{static_cast<int64_t>(arena.size())})));
  const std::span<std::byte> out =
      arena.subspan(static_cast<size_t>(arena_used_), static_cast<size_t>(rounded));
  if (!out.empty()) {
    // Before the first touch, or it comes too late. Refusal only costs speed.
    ::madvise(out.data(), out.size(), MADV_HUGEPAGE);
    if (::madvise(out.data(), out.size(), MADV_POPULATE_WRITE) != 0) {
      if (errno != EINVAL) return errno_error(errno, "back shared memory with pages");
      std::memset(out.data(), 0, out.size());  // before Linux 5.14
    }
  }
  arena_used_ += rounded;
  return out.first(static_cast<size_t>(bytes));
}

Status ShmGroup::run(const Operation& operation) {
  current_ = &operation;
  deadline_ = clock_.now() + options().timeout;
  return run_operation(operation);
}

Status ShmGroup::run_operation(const Operation& operation) {
  if (segment_->control(me_).phase.load() & ShmSegment::kBrokenBit) return group_broken();
  MUSTER_TRY(enter(operation));
  if (operation.reduces()) return reduce(operation);
  if (operation.kind == Operation::Kind::gather) return gather(operation);
  return sync();  // a barrier: nobody writes its next descriptor before all read this one
}

Status ShmGroup::enter(const Operation& operation) {
  ShmSegment::Descriptor& mine = segment_->control(me_).descriptor;
  const auto bytes = operation.count * static_cast<int64_t>(operation.element_bytes());
  mine.fingerprint = fingerprint(operation);
  mine.out_offset = segment_->offset_of(operation.out, bytes);
  mine.in_offset = operation.kind == Operation::Kind::gather
                       ? segment_->offset_of(operation.in, operation.slice_size(me_))
                       : -1;
  MUSTER_CHECK(operation.parts.size() <= ShmSegment::kMaxParts, operation.parts.size());
  for (size_t p = 0; p < operation.parts.size(); ++p)
    mine.part_offsets[p] = segment_->offset_of(operation.parts[p], bytes);
  MUSTER_TRY(sync());
  for (int r = 0; r < world(); ++r)
    if (descriptor(r).fingerprint != mine.fingerprint)
      return Error(Code::invalid_argument,
                   describe_difference(me_, mine.fingerprint, r, descriptor(r).fingerprint));
  return {};
}

ShmGroup::Rounds ShmGroup::reduce_rounds(const Operation& operation, const MergePlan& plan) const {
  Rounds rounds;
  int32_t most_parts = 0;
  for (int r = 0; r < world(); ++r) {
    const int32_t parts = plan.first_part[r + 1] - plan.first_part[r];
    most_parts = std::max(most_parts, parts);
    for (int32_t p = 0; p < parts; ++p)
      rounds.staged_parts |= world() > 1 && descriptor(r).part_offsets[p] < 0;
    rounds.staged_results |= world() > 1 && operation.kind == Operation::Kind::reduce_everywhere &&
                             descriptor(r).out_offset < 0;
  }
  rounds.per_round = operation.largest_slice();
  if (rounds.staged_parts || rounds.staged_results) {
    const int64_t areas = most_parts * world() + 1;
    const int64_t fit =
        segment_->staging_bytes() / (areas * static_cast<int64_t>(operation.element_bytes()));
    rounds.per_round = std::max<int64_t>(fit / 16 * 16, 1);
    MUSTER_CHECK(fit >= 1, segment_->staging_bytes(), areas);
  }
  const int64_t largest = operation.largest_slice();
  rounds.count = largest == 0 ? 0 : (largest + rounds.per_round - 1) / rounds.per_round;
  return rounds;
}

Status ShmGroup::reduce(const Operation& operation) {
  const MergePlan& plan = plan_for(operation.leaves);
  MUSTER_CHECK(static_cast<int32_t>(operation.parts.size()) ==
                   plan.first_part[me_ + 1] - plan.first_part[me_],
               operation.parts.size());
  const Rounds rounds = reduce_rounds(operation, plan);
  const size_t scratch = scratch_bytes(plan, operation.type);
  if (scratch_storage_.size() < scratch) scratch_storage_.resize(scratch);
  for (int64_t round = 0; round < rounds.count; ++round) {
    const int64_t from = round * rounds.per_round;
    if (rounds.staged_parts) {
      stage_parts(operation, rounds, from);
      MUSTER_TRY(sync());
    }
    reduce_slice(operation, plan, rounds, from);
    // Also the end: from here on nobody reads or writes another rank's buffers.
    MUSTER_TRY(sync());
    if (rounds.staged_results && descriptor(me_).out_offset < 0)
      take_results(operation, rounds, from);
  }
  return rounds.count == 0 ? sync() : Status();
}

void ShmGroup::stage_parts(const Operation& operation, const Rounds& rounds, int64_t from) {
  const size_t es = operation.element_bytes();
  for (size_t p = 0; p < operation.parts.size(); ++p) {
    if (descriptor(me_).part_offsets[p] >= 0) continue;
    for (int reader = 0; reader < world(); ++reader) {
      const int64_t n = std::min(rounds.per_round, operation.slice_size(reader) - from);
      if (reader == me_ || n <= 0) continue;
      std::memcpy(
          staged_part(rounds.per_round * static_cast<int64_t>(es), me_, static_cast<int32_t>(p),
                      reader),
          operation.parts[p] + static_cast<size_t>(operation.slice_begin(reader) + from) * es,
          static_cast<size_t>(n) * es);
    }
  }
}

void ShmGroup::reduce_slice(const Operation& operation, const MergePlan& plan, const Rounds& rounds,
                            int64_t from) {
  const size_t es = operation.element_bytes();
  const int64_t n = std::min(rounds.per_round, operation.slice_size(me_) - from);
  if (n <= 0) return;
  const size_t at = static_cast<size_t>(operation.slice_begin(me_) + from) * es;
  sources_.clear();
  for (int owner = 0; owner < world(); ++owner)
    for (int32_t p = 0; p < plan.first_part[owner + 1] - plan.first_part[owner]; ++p) {
      const int64_t offset = descriptor(owner).part_offsets[p];
      if (owner == me_)
        sources_.push_back(operation.parts[static_cast<size_t>(p)] + at);
      else if (offset >= 0)
        sources_.push_back(segment_->at(offset) + at);
      else
        sources_.push_back(staged_part(rounds.per_round * static_cast<int64_t>(es), owner, p, me_));
    }
  outs_.clear();
  if (operation.kind == Operation::Kind::reduce_slices) {
    outs_.push_back(operation.out + static_cast<size_t>(from) * es);
  } else {
    outs_.push_back(operation.out + at);
    for (int r = 0; r < world(); ++r)
      if (r != me_ && descriptor(r).out_offset >= 0)
        outs_.push_back(segment_->at(descriptor(r).out_offset) + at);
    if (rounds.staged_results) outs_.push_back(staged_result(me_));
  }
  const bool streaming =
      !rounds.staged_results && operation.count * static_cast<int64_t>(es) > kStreamingBytes;
  evaluate(plan, operation.type, operation.op, sources_, outs_, n, streaming,
           scratch_storage_.data());
}

void ShmGroup::take_results(const Operation& operation, const Rounds& rounds, int64_t from) {
  const size_t es = operation.element_bytes();
  for (int owner = 0; owner < world(); ++owner) {
    const int64_t n = std::min(rounds.per_round, operation.slice_size(owner) - from);
    if (owner == me_ || n <= 0) continue;
    std::memcpy(operation.out + static_cast<size_t>(operation.slice_begin(owner) + from) * es,
                staged_result(owner), static_cast<size_t>(n) * es);
  }
}

Status ShmGroup::gather(const Operation& operation) {
  bool staged = false;
  for (int r = 0; r < world(); ++r)
    staged |= world() > 1 && operation.slice_size(r) > 0 && descriptor(r).in_offset < 0;
  const int64_t largest = operation.largest_slice();
  const int64_t per_round = staged ? segment_->staging_bytes() : largest;
  std::byte* const my_slice = operation.out + operation.slice_begin(me_);
  if (operation.in != my_slice)
    std::memmove(my_slice, operation.in, static_cast<size_t>(operation.slice_size(me_)));
  for (int64_t from = 0; from < largest; from += per_round) {
    const int64_t mine = std::min(per_round, operation.slice_size(me_) - from);
    if (staged) {
      if (descriptor(me_).in_offset < 0 && mine > 0)
        std::memcpy(segment_->staging(me_), my_slice + from, static_cast<size_t>(mine));
      MUSTER_TRY(sync());
    }
    for (int owner = 0; owner < world(); ++owner) {
      const int64_t n = std::min(per_round, operation.slice_size(owner) - from);
      if (owner == me_ || n <= 0) continue;
      const int64_t offset = descriptor(owner).in_offset;
      std::memcpy(operation.out + operation.slice_begin(owner) + from,
                  offset >= 0 ? segment_->at(offset) + from : segment_->staging(owner),
                  static_cast<size_t>(n));
    }
    MUSTER_TRY(sync());
  }
  return largest == 0 ? sync() : Status();
}

Status ShmGroup::sync() {
  phase_ = (phase_ + 1) & kPhaseMask;
  ShmSegment::Control& mine = segment_->control(me_);
  uint32_t seen = mine.phase.load();
  do {
    if (seen & ShmSegment::kBrokenBit) return group_broken();
  } while (!mine.phase.compare_exchange_weak(seen, phase_));
  if (mine.sleepers.load() > 0) futex_wake_all(mine.phase);
  for (int r = 0; r < world(); ++r)
    if (r != me_) MUSTER_TRY(wait_for(r, phase_));
  return {};
}

Status ShmGroup::wait_for(int peer, uint32_t phase) {
  ShmSegment::Control& theirs = segment_->control(peer);
  for (int spin = 0; spin < kSpins; ++spin) {
    const uint32_t seen = theirs.phase.load();
    // A rank may have done its part and left since: reached comes before broken.
    if (reached(seen, phase)) return {};
    if (seen & ShmSegment::kBrokenBit) return group_broken();
    pause();
  }
  theirs.sleepers.fetch_add(1);
  Status status;
  for (;;) {
    const uint32_t seen = theirs.phase.load();
    if (reached(seen, phase)) break;
    if (seen & ShmSegment::kBrokenBit) {
      status = group_broken();
      break;
    }
    const Nanos left = deadline_ - clock_.now();
    if (left <= 0ns) {
      const RankSet late = late_ranks(phase);
      blame(late);
      status = Error(Code::timeout,
                     fmt::format("ranks {} did not come to {} within {}", late.to_string(),
                                 current_ ? describe(*current_) : "the start of the group",
                                 format_duration(options().timeout)));
      break;
    }
    futex_wait(theirs.phase, seen, std::min(left, kLivenessCheck));
    if (reached(theirs.phase.load(), phase)) continue;
    status = check_alive();
    if (!status) break;
  }
  theirs.sleepers.fetch_sub(1);
  return status;
}

Status ShmGroup::check_alive() {
  RankSet dead;
  for (int32_t r = 0; r < world(); ++r) {
    const OwnedFd& pidfd = pidfds_[static_cast<size_t>(r)];
    pollfd exited{pidfd.get(), POLLIN, 0};
    if (pidfd.valid() && ::poll(&exited, 1, 0) > 0) dead.insert(Rank{r});
  }
  if (dead.empty()) return {};
  blame(dead);
  return Error(
      Code::peer_lost,
      fmt::format("the processes of ranks {} have ended; this rank waited in {}", dead.to_string(),
                  current_ ? describe(*current_) : "the start of the group"));
}

RankSet ShmGroup::late_ranks(uint32_t phase) const {
  RankSet late;
  for (int32_t r = 0; r < world(); ++r)
    if (!reached(segment_->control(r).phase.load(), phase)) late.insert(Rank{r});
  return late;
}

Status ShmGroup::group_broken() {
  RankSet missing;
  Error error = segment_->failure(&missing);
  blame(missing);
  return error;
}

}  // namespace

Result<std::unique_ptr<Communicator>> join_shm_group(const Clock& clock,
                                                     std::shared_ptr<ShmSegment> segment, Rank rank,
                                                     const GroupOptions& options) {
  auto group = std::make_unique<ShmGroup>(clock, std::move(segment), rank, options);
  Status joined = group->join();
  if (!joined)
    return std::move(joined).error().context(fmt::format("rank {} joining the group", rank.value));
  return std::unique_ptr<Communicator>(std::move(group));
}

Result<std::unique_ptr<Communicator>> solo_group(const Clock& clock, const GroupOptions& options) {
  MUSTER_TRY(std::shared_ptr<ShmSegment> segment, ShmSegment::create(1, options));
  return join_shm_group(clock, std::move(segment), Rank{0}, options);
}

}  // namespace muster
