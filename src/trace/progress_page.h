// ProgressPage: what a worker is doing right now, in two cache lines of shared memory. The worker
// writes the first, its supervisor the second; each reads the other's without a lock. A value is
// never torn; values of one line may be of different moments.
//
// Times are CLOCK_MONOTONIC nanoseconds (Clock::now). The page outlives its worker, so a
// supervisor can read the last progress of a process that was killed.
#pragma once

#include <atomic>
#include <cstdint>
#include <string_view>

#include "base/clock.h"

namespace muster {

// Numbers are part of the shared layout: append only.
enum class Phase : uint32_t {
  unknown = 0,
  init_device = 1,
  init_rendezvous = 2,
  init_compile = 3,
  restore = 4,
  step = 5,
  eval = 6,
  ckpt_block = 7,
  idle = 8,
  finished = 9,
};
std::string_view phase_name(Phase phase);

struct ProgressPage {
  // The worker's line.
  struct alignas(64) Worker {
    std::atomic<uint64_t> step{0};  // the step being computed, counted from 1; 0 before the first
    std::atomic<uint64_t> ops{
        0};  // operations begun or ended since the start; only its change counts
    std::atomic<int64_t> t_last{0};
    std::atomic<uint32_t> phase{0};
    std::atomic<uint32_t> waiting{0};    // 1 while it waits for other ranks
    std::atomic<int64_t> long_until{0};  // silence is expected until then
    std::atomic<uint64_t> tokens{0};
    std::atomic<double> loss{0};
  } worker;
  // The supervisor's line.
  struct alignas(64) Agent {
    std::atomic<uint32_t> tier_mask{0};  // bit t: records of tier t are wanted
  } agent;
};
static_assert(sizeof(ProgressPage) == 128);
static_assert(std::atomic<uint64_t>::is_always_lock_free &&
              std::atomic<double>::is_always_lock_free);

// The worker's side. One thread calls at a time, except beat() and wait_for_others(), which any
// thread may call.
class ProgressWriter {
 public:
  // Both must outlive the writer.
  ProgressWriter(ProgressPage& page, const Clock& clock) : page_(page), clock_(clock) {}

  // "Still moving": call at the edges of everything that may block (collective, read, save).
  void beat() {
    page_.worker.ops.fetch_add(1, std::memory_order_relaxed);
    page_.worker.t_last.store(clock_.now().count(), std::memory_order_release);
  }
  // A phase that is silent for long by nature says for how long (zero: not at all).
  void enter(Phase phase, Nanos expected_silence);
  // Waits for other ranks from now on, or no longer: its silence is then theirs. Any thread.
  void wait_for_others(bool waiting) {
    page_.worker.waiting.store(waiting ? 1 : 0, std::memory_order_relaxed);
    beat();
  }
  void begin_step(int64_t step);
  void end_step(double loss, uint64_t tokens_total);
  Phase phase() const {
    return static_cast<Phase>(page_.worker.phase.load(std::memory_order_relaxed));
  }

 private:
  ProgressPage& page_;
  const Clock& clock_;
};

// The supervisor's side.
struct ProgressSnapshot {
  int64_t step = 0;
  uint64_t ops = 0;
  Nanos last{0};  // zero: the worker has not come up
  Phase phase = Phase::unknown;
  Nanos long_until{0};
  bool waiting = false;  // for other ranks
  uint64_t tokens = 0;
  double loss = 0;
};
ProgressSnapshot read_progress(const ProgressPage& page);

}  // namespace muster
