#include "trace/ticks.h"

#include <gtest/gtest.h>

#include <limits>

namespace muster {
namespace {

TEST(TickSource, TheCounterIsUsedOnlyWhenConstantAndNonstop) {
  const struct {
    const char* cpuinfo;
    TickSource want;
  } cases[] = {
      {"model name : x\nflags\t\t: fpu tsc constant_tsc rep_good nonstop_tsc cpuid\n",
       TickSource::tsc},
      {"flags\t\t: fpu tsc constant_tsc nonstop_tsc\n", TickSource::tsc},
      {"flags\t\t: fpu tsc constant_tsc\n", TickSource::vdso},
      {"flags\t\t: fpu xconstant_tsc nonstop_tsc2\n", TickSource::vdso},
      {"", TickSource::vdso},
      {"Features : fp asimd\n", TickSource::vdso},
  };
#if defined(__x86_64__)
  for (const auto& c : cases) EXPECT_EQ(choose_tick_source(c.cpuinfo), c.want) << c.cpuinfo;
#else
  for (const auto& c : cases) EXPECT_EQ(choose_tick_source(c.cpuinfo), TickSource::vdso);
#endif
}

TEST(TickScale, IsExactAtCalibrationsLinearBetweenAndBeyond) {
  // 3 ticks a nanosecond, then the clock is slewed: 100 ns more.
  const TickScale scale(TickSource::tsc, {{3000, 1000, 5000}, {6000, 2000, 6000}, {9000, 3100, 0}});
  EXPECT_EQ(scale.monotonic_ns(3000), 1000);
  EXPECT_EQ(scale.monotonic_ns(4500), 1500);
  EXPECT_EQ(scale.monotonic_ns(6000), 2000);
  EXPECT_EQ(scale.monotonic_ns(7500), 2550);
  EXPECT_EQ(scale.monotonic_ns(9000), 3100);
  EXPECT_EQ(scale.monotonic_ns(9000 + 6000), 3100 + 2100);  // slope first to last: 0.35
  EXPECT_EQ(scale.monotonic_ns(0), 1000 - 1050);
  EXPECT_EQ(scale.residual_ns(), 50);
  EXPECT_EQ(scale.realtime_offset_ns(), -3100);
}

TEST(TickScale, IsMonotoneEvenWithCalibrationsThatGoBack) {
  const TickScale scale(TickSource::tsc,
                        {{100, 1000, 0}, {100, 900, 0}, {200, 950, 0}, {300, 1200, 0}});
  int64_t before = std::numeric_limits<int64_t>::min();
  for (uint64_t t = 0; t < 500; ++t) {
    EXPECT_GE(scale.monotonic_ns(t), before);
    before = scale.monotonic_ns(t);
  }
}

TEST(TickScale, WithTheVdsoATickIsANanosecond) {
  const TickScale scale(TickSource::vdso, {{100, 100, 1100}});
  EXPECT_EQ(scale.monotonic_ns(123'456), 123'456);
  EXPECT_EQ(scale.realtime_offset_ns(), 1000);
  EXPECT_EQ(TickScale(TickSource::tsc, {}).monotonic_ns(7), 7);  // nothing known
}

TEST(Calibrate, PairsTheClocksOfThisMachine) {
  const TickSource source = best_tick_source();
  const Calibration first = calibrate(source), second = calibrate(source);
  EXPECT_GT(second.ticks, first.ticks);
  EXPECT_GE(second.monotonic_ns, first.monotonic_ns);
  EXPECT_GT(first.realtime_ns, int64_t{1'600'000'000} * 1'000'000'000);
  const TickScale scale(source, {first, second});
  EXPECT_EQ(scale.monotonic_ns(first.ticks), first.monotonic_ns);
}

}  // namespace
}  // namespace muster
