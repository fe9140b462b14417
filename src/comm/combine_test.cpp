#include "comm/combine.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "base/cpu_features.h"
#include "base/philox.h"

namespace muster {
namespace {

struct alignas(64) Scratch {
  std::byte bytes[64 << 10];
};

std::vector<float> numbers(uint64_t seed, int64_t count) {
  std::vector<float> out(static_cast<size_t>(count));
  for (int64_t i = 0; i < count; ++i)
    out[i] = static_cast<float>((unit_double(philox_u64(seed, static_cast<uint64_t>(i), 0)) - 0.5) *
                                std::ldexp(1.0, static_cast<int>(seed % 20)));
  return out;
}

template <class T>
std::vector<T> evaluated(const MergePlan& plan, ReduceOp op,
                         const std::vector<std::vector<T>>& parts, bool streaming = false) {
  std::vector<T> out(parts[0].size() + 8);
  std::vector<const std::byte*> sources;
  for (const auto& part : parts) sources.push_back(reinterpret_cast<const std::byte*>(part.data()));
  std::byte* outs[] = {reinterpret_cast<std::byte*>(out.data())};
  Scratch scratch;
  evaluate(plan, element_type<T>(), op, sources, outs, static_cast<int64_t>(parts[0].size()),
           streaming, scratch.bytes);
  out.resize(parts[0].size());
  return out;
}

TEST(Combine, EveryLengthAndEveryPlanEqualsOneAdditionAtATime) {
  for (const int64_t count : {0, 1, 7, 8, 9, 1023, 1024, 1025, 3000})
    for (const int64_t leaves : {1, 2, 3, 5, 8}) {
      const MergePlan plan = plan_merge(leaves, static_cast<int>(leaves));
      std::vector<std::vector<float>> parts;
      for (int64_t p = 0; p < leaves; ++p)
        parts.push_back(numbers(static_cast<uint64_t>(p), count));
      for (const bool streaming : {false, true}) {
        const std::vector<float> got = evaluated(plan, ReduceOp::sum, parts, streaming);
        for (int64_t i = 0; i < count; ++i) {
          std::vector<float> slots(static_cast<size_t>(plan.slots));
          for (int64_t p = 0; p < leaves; ++p) slots[p] = parts[p][i];
          for (const MergeStep s : plan.steps) slots[s.out] = slots[s.left] + slots[s.right];
          ASSERT_EQ(got[i], slots[plan.result]) << count << " " << leaves << " " << i;
        }
      }
    }
}

TEST(Combine, ThePlainLoopAndAvx2GiveTheSameBits) {
  if (!cpu_features().avx2) GTEST_SKIP() << "this CPU has no AVX2";
  std::vector<float> a = numbers(1, 1000), b = numbers(19, 1000);
  a[3] = NAN;
  a[5] = -0.0f;
  b[5] = 0.0f;
  a[6] = std::numeric_limits<float>::denorm_min();
  std::vector<float> plain(1000), fast(1000), second(1000);
  float* one[] = {plain.data()};
  float* two[] = {fast.data(), second.data()};
  detail::add_f32(a.data(), b.data(), one, 1, 1000, false);
  detail::add_f32_avx2(a.data(), b.data(), two, 2, 1000, true);
  EXPECT_EQ(std::memcmp(plain.data(), fast.data(), 4000), 0);
  EXPECT_EQ(std::memcmp(plain.data(), second.data(), 4000), 0);
}

TEST(Combine, AnOutMayBeASource) {
  const MergePlan plan = plan_merge(3, 3);
  std::vector<std::vector<float>> parts = {numbers(1, 2500), numbers(2, 2500), numbers(3, 2500)};
  const std::vector<float> want = evaluated(plan, ReduceOp::sum, parts);
  const std::byte* sources[] = {reinterpret_cast<std::byte*>(parts[0].data()),
                                reinterpret_cast<std::byte*>(parts[1].data()),
                                reinterpret_cast<std::byte*>(parts[2].data())};
  std::byte* outs[] = {reinterpret_cast<std::byte*>(parts[0].data()),
                       reinterpret_cast<std::byte*>(parts[2].data())};
  Scratch scratch;
  evaluate(plan, ElementType::f32, ReduceOp::sum, sources, outs, 2500, false, scratch.bytes);
  EXPECT_EQ(parts[0], want);
  EXPECT_EQ(parts[2], want);
}

TEST(Combine, MaximumPrefersNaN) {
  const MergePlan plan = plan_merge(2, 2);
  const double nan = std::nan("");
  const std::vector<double> got =
      evaluated<double>(plan, ReduceOp::max, {{1, 5, nan, 2, -1}, {3, 4, 1, nan, -2}});
  EXPECT_EQ(got[0], 3);
  EXPECT_EQ(got[1], 5);
  EXPECT_TRUE(std::isnan(got[2]));
  EXPECT_TRUE(std::isnan(got[3]));
  EXPECT_EQ(got[4], -1);
}

TEST(Combine, IntegersWrap) {
  const MergePlan plan = plan_merge(2, 2);
  const int64_t most = std::numeric_limits<int64_t>::max();
  EXPECT_EQ(evaluated<int64_t>(plan, ReduceOp::sum, {{most, 40}, {1, 2}}),
            (std::vector<int64_t>{std::numeric_limits<int64_t>::min(), 42}));
}

}  // namespace
}  // namespace muster
