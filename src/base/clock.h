// Clock: the only source of time. Two implementations: RealClock and SimClock, whose time moves
// only when told to. Times are int64 nanoseconds; `now` is monotonic (CLOCK_MONOTONIC), `wall`
// counts from 1970 UTC.
#pragma once

#include <chrono>
#include <cstdint>

#include "base/check.h"

namespace muster {

using Nanos = std::chrono::nanoseconds;

class Clock {
 public:
  virtual ~Clock() = default;
  virtual Nanos now() const = 0;
  virtual Nanos wall() const = 0;
  // Blocks the calling thread until `now() >= deadline`. SimClock advances itself instead.
  virtual void sleep_until(Nanos deadline) = 0;
  void sleep_for(Nanos duration) { sleep_until(now() + duration); }
};

// CLOCK_MONOTONIC and CLOCK_REALTIME. Stateless; safe from any thread.
class RealClock final : public Clock {
 public:
  Nanos now() const override;
  Nanos wall() const override;
  void sleep_until(Nanos deadline) override;
};

// Virtual time for tests and simulation. Not thread-safe: one thread runs the simulated world.
class SimClock final : public Clock {
 public:
  explicit SimClock(Nanos start = Nanos{0}, Nanos wall_offset = std::chrono::seconds{1'700'000'000})
      : now_(start), wall_offset_(wall_offset) {}
  Nanos now() const override { return now_; }
  Nanos wall() const override { return now_ + wall_offset_; }
  void sleep_until(Nanos deadline) override {
    if (deadline > now_) now_ = deadline;
  }
  void advance(Nanos duration) {
    MUSTER_CHECK(duration.count() >= 0, duration.count());
    now_ += duration;
  }

 private:
  Nanos now_;
  Nanos wall_offset_;
};

}  // namespace muster
