#include "base/rank_set.h"

#include <gtest/gtest.h>

#include <set>

#include "base/philox.h"

namespace muster {
namespace {

TEST(RankSet, PrintsTheShortForm) {
  const struct {
    RankSet set;
    const char* text;
  } cases[] = {
      {{}, "[]"},
      {{5}, "[5]"},
      {{0, 1}, "[0-1]"},
      {{0, 2}, "[0,2]"},
      {{0, 2, 4}, "[0-4:2]"},
      {{0, 1, 2, 3, 8, 10, 12, 14, 16, 18, 20}, "[0-3,8-20:2]"},
      {RankSet::range(0, 100000), "[0-99999]"},
  };
  for (const auto& c : cases) {
    EXPECT_EQ(c.set.to_string(), c.text);
    EXPECT_EQ(RankSet::parse(c.text).value(), c.set);
  }
}

TEST(RankSet, RefusesTextThatIsNoSet) {
  for (const char* text :
       {"a", "[1", "3-1", "1-5:0", "-1", "1,,2", "1,", "0-99999999999", "1-2-3", "0-2147483647"}) {
    EXPECT_FALSE(RankSet::parse(text)) << text;
  }
}

TEST(RankSet, BehavesAsASetOfNumbers) {
  for (uint64_t seed = 0; seed < 200; ++seed) {
    std::set<int32_t> a, b;
    RankSet x, y;
    for (uint64_t i = 0; i < 12; ++i) {
      const auto r = static_cast<int32_t>(philox_below(24, seed, i, 0));
      (i % 2 == 0 ? a : b).insert(r);
      (i % 2 == 0 ? x : y).insert(Rank{r});
    }
    std::set<int32_t> both = a;
    both.insert(b.begin(), b.end());
    const RankSet united = x.united(y), common = x.intersected(y), rest = x.without(y);
    EXPECT_EQ(united.size(), static_cast<int64_t>(both.size()));
    for (int32_t r = 0; r < 24; ++r) {
      EXPECT_EQ(united.contains(Rank{r}), both.count(r) == 1);
      EXPECT_EQ(common.contains(Rank{r}), a.count(r) == 1 && b.count(r) == 1);
      EXPECT_EQ(rest.contains(Rank{r}), a.count(r) == 1 && b.count(r) == 0);
    }
    EXPECT_EQ(RankSet::parse(united.to_string()).value(), united);
  }
}

}  // namespace
}  // namespace muster
