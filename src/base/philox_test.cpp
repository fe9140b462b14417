#include "base/philox.h"

#include <gtest/gtest.h>

#include "base/random.h"

namespace muster {
namespace {

// Known answers of Random123's kat_vectors for philox4x32, 10 rounds.
TEST(Philox, GivesThePublishedVectors) {
  EXPECT_EQ(philox(0, 0, 0), (PhiloxBlock{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(philox(~uint64_t{0}, ~uint64_t{0}, ~uint64_t{0}),
            (PhiloxBlock{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(philox(0x299f31d0a4093822, 0x85a308d3243f6a88, 0x0370734413198a2e),
            (PhiloxBlock{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(Philox, BelowStaysBelowAndReachesEveryValue) {
  int seen[7] = {};
  for (uint64_t i = 0; i < 7000; ++i) {
    const uint64_t x = philox_below(7, 42, i, 0);
    ASSERT_LT(x, 7u);
    ++seen[x];
  }
  for (const int count : seen) EXPECT_NEAR(count, 1000, 150);
  EXPECT_EQ(philox_below(1, 1, 2, 3), 0u);
}

TEST(Philox, UnitDoubleIsInTheHalfOpenInterval) {
  EXPECT_EQ(unit_double(0), 0.0);
  EXPECT_LT(unit_double(~uint64_t{0}), 1.0);
}

TEST(SimRandom, TheSameSeedGivesTheSameDraws) {
  SimRandom a(7), b(7), c(8);
  EXPECT_EQ(a.u64(), b.u64());
  EXPECT_NE(a.u64(), c.u64());
  for (int i = 0; i < 100; ++i) EXPECT_LT(a.below(10), 10u);
}

TEST(RealRandom, FillsEveryByte) {
  RealRandom random;
  EXPECT_NE(random.u64(), random.u64());
}

}  // namespace
}  // namespace muster
