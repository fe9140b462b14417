#include "runtime/supervise/hang_judge.h"

#include <gtest/gtest.h>

namespace muster {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

HangPolicy policy() {
  HangPolicy policy;
  policy.enabled = true;
  return policy;
}

// A rank that does steps of a given length, looked at every 100 ms.
struct Watched {
  HangJudge judge{policy(), Nanos{0}};
  ProgressSnapshot page;
  Nanos now{0};

  void steps(int count, Nanos each) {
    page.phase = Phase::step;
    for (int i = 0; i < count; ++i) {
      ++page.step;
      ++page.ops;
      page.last = now;
      EXPECT_FALSE(pass(each));
    }
  }
  // Time without progress; how long until the verdict.
  std::optional<Nanos> pass(Nanos time) {
    for (const Nanos begin = now; now < begin + time;) {
      now += milliseconds{100};
      if (judge.look(page, now)) return now - begin;
    }
    return std::nullopt;
  }
};

TEST(HangJudge, LearnsFromTheStepsOfTheRank) {
  Watched quick;
  quick.steps(50, milliseconds{200});
  EXPECT_EQ(quick.judge.limit(), seconds{5});  // never less
  const auto found = quick.pass(seconds{60});
  ASSERT_TRUE(found);
  EXPECT_GE(*found, seconds{5});
  EXPECT_LE(*found, seconds{7});

  Watched slow;
  slow.steps(50, seconds{4});
  EXPECT_EQ(slow.judge.limit(), seconds{20});
  EXPECT_FALSE(slow.pass(seconds{15}));
}

TEST(HangJudge, LearnsFromStepsShorterThanTheTimeBetweenTwoLooks) {
  Watched watched;
  watched.page.phase = Phase::step;
  for (int look = 0; look < 100; ++look) {
    watched.page.step += 7;
    ++watched.page.ops;
    EXPECT_FALSE(watched.pass(milliseconds{100}));
  }
  EXPECT_EQ(watched.judge.limit(), seconds{5});  // not the start's two minutes
  EXPECT_TRUE(watched.pass(seconds{8}));
}

TEST(HangJudge, AResumedRunDoesNotTakeItsStepNumberForAStepTime) {
  Watched resumed;
  EXPECT_FALSE(resumed.pass(seconds{60}));  // restoring
  resumed.page.step = 1000;
  ++resumed.page.ops;
  EXPECT_FALSE(resumed.pass(seconds{30}));
  EXPECT_EQ(resumed.judge.limit(), policy().start_limit);  // no step is done yet
  resumed.page.step = 1001;
  ++resumed.page.ops;
  EXPECT_FALSE(resumed.pass(milliseconds{100}));
  EXPECT_EQ(resumed.judge.limit(), seconds{150});  // 5 x 30 s
}

TEST(HangJudge, TheTimeOfTheFirstStepCountsOnlyUntilThereIsAnother) {
  Watched warming;
  warming.steps(1, seconds{60});
  warming.steps(1, milliseconds{200});
  EXPECT_EQ(warming.judge.limit(), seconds{300});
  warming.steps(1, milliseconds{200});
  EXPECT_EQ(warming.judge.limit(), seconds{5});
  EXPECT_TRUE(warming.pass(seconds{8}));
}

TEST(HangJudge, AnnouncedSilenceBetweenStepsIsNoStepTime) {
  Watched watched;
  for (int round = 0; round < 5; ++round) {
    watched.steps(3, seconds{2});
    watched.page.phase = Phase::ckpt_block;
    watched.page.long_until = watched.now + seconds{1000};
    EXPECT_FALSE(watched.pass(seconds{90}));
    watched.page.long_until = Nanos{0};
  }
  watched.steps(2, seconds{2});
  EXPECT_EQ(watched.judge.limit(), seconds{10});  // 5 x 2 s
}

SilentRank silent(int32_t rank, int64_t step, bool waiting) {
  SilentRank s;
  s.rank = rank;
  s.progress.step = step;
  s.progress.waiting = waiting;
  return s;
}

std::vector<int32_t> culprits(const std::vector<SilentRank>& all, size_t running) {
  std::vector<int32_t> ranks;
  for (const SilentRank& s : hang_culprits(all, running)) ranks.push_back(s.rank);
  return ranks;
}

TEST(HangCulprits, AreThoseTheOthersWaitFor) {
  using Ranks = std::vector<int32_t>;
  EXPECT_EQ(culprits({}, 4), Ranks{});
  // Rank 2 stands still; the others are silent because of it.
  EXPECT_EQ(culprits({silent(0, 7, true), silent(2, 7, false), silent(3, 7, true)}, 4), Ranks{2});
  EXPECT_EQ(culprits({silent(1, 7, false), silent(2, 7, false)}, 4), (Ranks{1, 2}));
  // Those who wait are silent first: rank 1 still has time.
  EXPECT_EQ(culprits({silent(0, 7, true)}, 2), Ranks{});
  // Rank 0 was stopped inside a collective, where it seems to wait as its peers do.
  SilentRank stopped = silent(0, 7, true);
  stopped.stopped = true;
  EXPECT_EQ(culprits({stopped, silent(1, 7, true)}, 2), Ranks{0});
  // All wait for each other: the one furthest behind.
  EXPECT_EQ(culprits({silent(0, 7, true), silent(1, 6, true), silent(2, 7, true)}, 3), Ranks{1});
}

TEST(HangJudge, BeforeTheFirstStepTheStartLimitHolds) {
  Watched starting;
  EXPECT_FALSE(starting.pass(seconds{119}));
  EXPECT_TRUE(starting.pass(seconds{3}));
}

TEST(HangJudge, AnnouncedSilenceAndFinishedRanksAreNoHang) {
  Watched watched;
  watched.steps(20, milliseconds{100});
  watched.page.long_until = watched.now + seconds{100};
  EXPECT_FALSE(watched.pass(seconds{100}));
  EXPECT_TRUE(watched.pass(seconds{8}));  // but after it the limit counts again

  Watched done;
  done.steps(20, milliseconds{100});
  done.page.phase = Phase::finished;
  EXPECT_FALSE(done.pass(seconds{1000}));
}

TEST(HangJudge, AnySignOfLifeCounts) {
  Watched watched;
  watched.steps(20, milliseconds{100});
  for (int i = 0; i < 20; ++i) {
    EXPECT_FALSE(watched.pass(seconds{4}));
    ++watched.page.ops;
  }
}

TEST(HangJudge, TheVerdictSaysWhereAndHowLong) {
  Watched watched;
  watched.steps(20, milliseconds{100});
  ASSERT_TRUE(watched.pass(seconds{60}));
  const auto text = watched.judge.look(watched.page, watched.now);
  ASSERT_TRUE(text);
  EXPECT_NE(text->find("step 20"), std::string::npos) << *text;
  EXPECT_NE(text->find("limit 5.00 s"), std::string::npos) << *text;
}

}  // namespace
}  // namespace muster
