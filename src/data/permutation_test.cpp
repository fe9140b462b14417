#include "data/permutation.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

namespace muster {
namespace {

void expect_bijection(uint64_t n, uint64_t seed, uint64_t epoch) {
  const Permutation p(n, seed, epoch);
  std::vector<bool> seen(n);
  for (uint64_t i = 0; i < n; ++i) {
    const uint64_t x = p.at(i);
    ASSERT_LT(x, n);
    ASSERT_FALSE(seen[x]) << "n=" << n << " value " << x << " twice";
    seen[x] = true;
    ASSERT_EQ(p.index_of(x), i) << "n=" << n;
  }
}

TEST(Permutation, IsABijectionForEverySizeUpTo4096) {
  for (uint64_t n = 1; n <= 4096; ++n) expect_bijection(n, 1, n % 3);
}

TEST(Permutation, IsABijectionAroundPowersOfTwoAndFour) {
  for (int bits = 13; bits <= 20; ++bits) {
    for (int64_t d = -2; d <= 2; ++d)
      expect_bijection((uint64_t{1} << bits) + static_cast<uint64_t>(d), 9, 4);
  }
}

TEST(Permutation, HugeSizesInvert) {
  for (const uint64_t n :
       {(uint64_t{1} << 40) + 7, (uint64_t{1} << 62) - 1, (uint64_t{1} << 62) + 1}) {
    const Permutation p(n, 3, 0);
    for (const uint64_t i : {uint64_t{0}, uint64_t{1}, n / 2, n - 1})
      EXPECT_EQ(p.index_of(p.at(i)), i);
  }
}

TEST(Permutation, SeedsAndEpochsGiveOtherOrders) {
  const Permutation a(1000, 1, 0), b(1000, 1, 1), c(1000, 2, 0);
  int same_epoch = 0, same_seed = 0;
  for (uint64_t i = 0; i < 1000; ++i) {
    same_epoch += a.at(i) == b.at(i);
    same_seed += a.at(i) == c.at(i);
  }
  EXPECT_LT(same_epoch, 10);  // about one fixed point is expected by chance
  EXPECT_LT(same_seed, 10);
}

TEST(Permutation, SpreadsNeighbours) {
  // The mean distance of two random places in [0, n) is n / 3.
  const uint64_t n = 1 << 16;
  const Permutation p(n, 5, 0);
  double distance = 0;
  for (uint64_t i = 0; i + 1 < n; ++i) {
    const auto a = static_cast<double>(p.at(i)), b = static_cast<double>(p.at(i + 1));
    distance += a < b ? b - a : a - b;
  }
  EXPECT_NEAR(distance / static_cast<double>(n - 1) / static_cast<double>(n), 1.0 / 3, 0.01);
}

}  // namespace
}  // namespace muster
