// Ticks: the time stamp of a record, and what turns it into nanoseconds.
//
// A tick is one count of the CPU's time stamp counter where it runs at a constant rate and never
// stops (flags constant_tsc and nonstop_tsc), else one nanosecond of CLOCK_MONOTONIC read through
// the vDSO. A Calibration pairs ticks with both clocks of the system; a TickScale made of several
// converts ticks to CLOCK_MONOTONIC nanoseconds, the time of every event of a run.
#pragma once

#include <cstdint>
#include <ctime>
#include <string_view>
#include <vector>

#if defined(__x86_64__)
#include <x86intrin.h>
#endif

namespace muster {

enum class TickSource : uint32_t { vdso = 1, tsc = 2 };

// Decides from the text of /proc/cpuinfo; pure.
TickSource choose_tick_source(std::string_view cpuinfo);
// The source for this machine; reads /proc/cpuinfo.
TickSource best_tick_source();

inline uint64_t read_ticks(TickSource source) {
#if defined(__x86_64__)
  if (source == TickSource::tsc) [[likely]]
    return __rdtsc();
#else
  static_cast<void>(source);
#endif
  timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return static_cast<uint64_t>(t.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(t.tv_nsec);
}

struct Calibration {
  uint64_t ticks = 0;
  int64_t monotonic_ns = 0;
  int64_t realtime_ns = 0;
  bool operator==(const Calibration&) const = default;
};

// Reads the tick source around both clocks a few times and keeps the tightest reading.
Calibration calibrate(TickSource source);

// Piecewise linear through the calibrations, so it is monotone and exact at each of them; outside
// them the slope from first to last goes on. Value type.
class TickScale {
 public:
  // Any order, duplicates allowed. With the vDSO source a tick is a nanosecond and calibrations
  // only fix the wall clock.
  TickScale(TickSource source, std::vector<Calibration> calibrations);

  int64_t monotonic_ns(uint64_t ticks) const;
  // Wall clock minus monotonic clock at the latest calibration; 0 without one.
  int64_t realtime_offset_ns() const { return realtime_offset_ns_; }
  double ns_per_tick() const { return ns_per_tick_; }
  // Largest distance of a calibration from the straight line first to last. A constant-rate
  // counter stays within about a microsecond, plus what NTP slews.
  int64_t residual_ns() const;

 private:
  TickSource source_;
  std::vector<Calibration> points_;  // strictly increasing in ticks, monotone in ns
  double ns_per_tick_ = 1;
  int64_t realtime_offset_ns_ = 0;
};

}  // namespace muster
