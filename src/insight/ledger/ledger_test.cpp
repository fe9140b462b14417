#include "insight/ledger/ledger.h"

#include <gtest/gtest.h>

#include <numeric>

#include "base/philox.h"

namespace muster {
namespace {

int64_t sum(const LeafTimes& times) {
  return std::accumulate(times.begin(), times.end(), int64_t{0});
}
int64_t of(const LeafTimes& times, Leaf leaf) {
  return times[static_cast<size_t>(leaf)];
}

TEST(Leaf, NamesAreUniqueAndConvertBack) {
  for (const Leaf leaf : leaves_in_reading_order()) {
    EXPECT_EQ(leaf_from_name(leaf_name(leaf)), leaf);
    EXPECT_FALSE(leaf_meaning(leaf).empty());
  }
  EXPECT_FALSE(leaf_from_name("step").has_value());
}

TEST(Claims, TheFirstInOrderWinsAndTheRestIsOther) {
  const std::vector<Claim> claims = {
      {Leaf::step_compute, {10, 30}}, {Leaf::step_host_gap, {0, 40}},
      {Leaf::step_compute, {20, 35}},                          // nested in part
      {Leaf::hang, {34, 50}},         {Leaf::eval, {60, 60}},  // empty
      {Leaf::eval, {90, 200}},                                 // leaves the window
      {Leaf::eval, {70, 65}}};                                 // backwards
  const LeafTimes times = attribute({5, 100}, claims);
  EXPECT_EQ(of(times, Leaf::step_host_gap), 5);
  EXPECT_EQ(of(times, Leaf::step_compute), 24);
  EXPECT_EQ(of(times, Leaf::hang), 16);
  EXPECT_EQ(of(times, Leaf::eval), 10);
  EXPECT_EQ(of(times, Leaf::other), 40);
  EXPECT_EQ(sum(times), 95);
  EXPECT_EQ(sum(attribute({5, 5}, claims)), 0);
}

struct Draw {
  uint64_t key;
  uint64_t at = 0;
  int64_t below(int64_t n) {
    return static_cast<int64_t>(philox_below(static_cast<uint64_t>(n), key, at++, 0));
  }
};

TEST(Claims, RandomClaimsArePartitionedExactly) {
  for (uint64_t seed = 0; seed < 300; ++seed) {
    Draw draw{seed};
    std::vector<Claim> claims(static_cast<size_t>(draw.below(40)));
    for (Claim& c : claims) {
      c.leaf = static_cast<Leaf>(draw.below(kLeafCount));
      c.when.begin = draw.below(120) - 10;
      c.when.end = c.when.begin + draw.below(50) - 5;
    }
    const Interval window{0, 100};
    const std::vector<Claim> parts = partition(window, claims);
    int64_t at = window.begin;
    for (const Claim& part : parts) {
      ASSERT_EQ(part.when.begin, at);  // no gap, no overlap
      ASSERT_GT(part.when.end, at);
      at = part.when.end;
      // By the definition, instant by instant.
      for (int64_t t = part.when.begin; t < part.when.end; ++t) {
        Leaf want = Leaf::other;
        for (const Claim& c : claims)
          if (c.when.begin <= t && t < c.when.end) want = std::min(want, c.leaf);
        ASSERT_EQ(part.leaf, want) << "seed " << seed << " t " << t;
      }
    }
    ASSERT_EQ(at, window.end);
    ASSERT_EQ(sum(attribute(window, claims)), 100);
  }
}

RankLife life(int32_t rank, int32_t attempt, int64_t placed) {
  return {.rank = rank,
          .attempt = attempt,
          .placed_ns = placed,
          .first_record_ns = placed,
          .last_progress_ns = placed};
}

TEST(Ledger, AKilledRankTurnsIntoDetectionRestartReloadAndRework) {
  // Two ranks, launch 0, end 1000. Attempt 0 placed at 10; steps of 100 ns from 100: 1, 2, 3; a
  // commit of step 2 survives; rank 1 dies within step 4 at 430; the verdict is at 450; attempt 1
  // is placed at 500, restores 520..560 and runs steps 3..6 from 600.
  LedgerInput in{.ranks = 2, .launch_ns = 0, .end_ns = 1000, .ended = true, .succeeded = true};
  in.started_from = {{0, 0}, {1, 2}};
  in.committed_step = 6;
  for (int32_t rank = 0; rank < 2; ++rank) {
    RankLife a = life(rank, 0, 10);
    a.first_record_ns = 40;
    a.spans = {{Leaf::init_rendezvous, {40, 100}}};
    for (int64_t s = 1; s <= 3; ++s) a.steps.push_back({s, {100 * s, 100 * s + 100}, true});
    a.steps.push_back({4, {400, 430}, false});
    for (int64_t s = 1; s <= 3; ++s)
      a.spans.push_back({Leaf::step_compute, {100 * s, 100 * s + 80}});
    a.last_progress_ns = 430;
    a.verdict_ns = 450;
    in.lives.push_back(a);

    RankLife b = life(rank, 1, 500);
    b.first_record_ns = 520;
    b.spans = {{Leaf::restore, {520, 560}}, {Leaf::init_rendezvous, {550, 600}}};
    for (int64_t s = 3; s <= 6; ++s) b.steps.push_back({s, {300 + 100 * s, 400 + 100 * s}, true});
    b.last_progress_ns = 1000;
    in.lives.push_back(b);
  }
  const Ledger ledger = make_ledger(in);
  const auto want = [&](Leaf leaf, int64_t per_rank) {
    EXPECT_EQ(ledger.at(leaf), 2 * per_rank) << leaf_name(leaf);
  };
  want(Leaf::provision, 10);
  want(Leaf::init_device, 30 + 20);
  want(Leaf::init_rendezvous, 60 + 40);  // restore wins 550..560
  want(Leaf::restore, 40);
  want(Leaf::step_compute, 160);        // steps 1 and 2
  want(Leaf::step_host_gap, 40 + 400);  // of those, and steps 3..6 without spans
  want(Leaf::rework, 130);              // step 3 and the begun 4
  want(Leaf::hang, 20);
  want(Leaf::evict, 50);
  want(Leaf::other, 0);
  EXPECT_EQ(ledger.total(), 2000);
  EXPECT_EQ(sum(ledger.times), 2000);
  EXPECT_DOUBLE_EQ(ledger.goodput(), 0.6);
  // By attempt: what the failure of attempt 0 cost stands with it.
  EXPECT_EQ(of(ledger.by_attempt.at(0), Leaf::evict), 100);
  EXPECT_EQ(of(ledger.by_attempt.at(0), Leaf::restore), 0);
  EXPECT_EQ(of(ledger.by_attempt.at(1), Leaf::restore), 80);
}

TEST(Ledger, UncommittedStepsCountOnlyWhileThereIsHope) {
  LedgerInput in{.ranks = 1, .launch_ns = 0, .end_ns = 300};
  RankLife a = life(0, 0, 0);
  a.steps = {{1, {0, 100}, true}, {2, {100, 200}, true}, {3, {200, 300}, true}};
  a.last_progress_ns = 300;
  in.lives = {a};
  in.committed_step = 1;
  EXPECT_EQ(make_ledger(in).step_total(), 300);  // it still runs
  in.ended = true;
  in.succeeded = true;
  EXPECT_EQ(make_ledger(in).step_total(), 300);
  in.succeeded = false;
  EXPECT_EQ(make_ledger(in).step_total(), 100);
  EXPECT_EQ(make_ledger(in).at(Leaf::rework), 200);
  in.committed_step = std::nullopt;
  EXPECT_EQ(make_ledger(in).at(Leaf::rework), 300);
}

TEST(Ledger, ALaterRestartFromFurtherBackLosesMore) {
  LedgerInput in{.ranks = 1, .launch_ns = 0, .end_ns = 500, .ended = true, .succeeded = true};
  in.started_from = {{0, 0}, {1, 2}, {2, 1}};  // the checkpoint of step 2 turned out bad
  RankLife a = life(0, 0, 0), b = life(0, 1, 200), c = life(0, 2, 300);
  a.steps = {{1, {0, 100}, true}, {2, {100, 200}, true}};
  b.steps = {{3, {200, 300}, true}};
  c.steps = {{2, {300, 400}, true}, {3, {400, 500}, true}};
  in.lives = {c, a, b};  // any order
  const Ledger ledger = make_ledger(in);
  EXPECT_EQ(ledger.step_total(), 100 + 200);
  EXPECT_EQ(ledger.at(Leaf::rework), 200);
}

TEST(Ledger, WaitingForTheLastRankIsToldFromTransfer) {
  // Rank 0 enters at 20, rank 1 at 50; both leave at 80. In rank 0 compute overlaps until 30.
  LedgerInput in{.ranks = 2, .launch_ns = 0, .end_ns = 100, .ended = true, .succeeded = true};
  RankLife a = life(0, 0, 0), b = life(1, 0, 0);
  a.steps = b.steps = {{1, {0, 100}, true}};
  a.spans = {{Leaf::step_compute, {0, 30}}};
  b.spans = {{Leaf::step_compute, {0, 50}}};
  a.collectives = {{"comm.all_reduce", 1, {20, 80}}, {"comm.barrier", 0, {80, 90}}};
  b.collectives = {{"comm.all_reduce", 1, {50, 80}}};
  in.lives = {a, b};
  const Ledger ledger = make_ledger(in);
  EXPECT_EQ(of(ledger.by_rank[0], Leaf::step_straggler_wait), 20);
  EXPECT_EQ(of(ledger.by_rank[0], Leaf::step_exposed_comm), 30 + 10);
  EXPECT_EQ(of(ledger.by_rank[1], Leaf::step_straggler_wait), 0);
  EXPECT_EQ(of(ledger.by_rank[1], Leaf::step_exposed_comm), 30);
}

TEST(Ledger, StepLeavesExistOnlyInsideSteps) {
  LedgerInput in{.ranks = 1, .launch_ns = 0, .end_ns = 100, .ended = true, .succeeded = true};
  RankLife a = life(0, 0, 0);
  a.steps = {{1, {20, 40}, true}, {2, {60, 80}, true}};
  a.spans = {{Leaf::step_compute, {0, 100}}, {Leaf::eval, {80, 90}}};
  in.lives = {a};
  const Ledger ledger = make_ledger(in);
  EXPECT_EQ(ledger.at(Leaf::step_compute), 40);
  EXPECT_EQ(ledger.at(Leaf::eval), 10);
  EXPECT_EQ(ledger.at(Leaf::other), 50);
}

TEST(Ledger, TheFirstStepsExtraIsInitOnceTheUsualStepIsKnown) {
  LedgerInput in{.ranks = 1, .launch_ns = 0, .end_ns = 600, .ended = true, .succeeded = true};
  RankLife a = life(0, 0, 0);
  a.steps = {{1, {0, 300}, true}, {2, {300, 400}, true}, {3, {400, 500}, true}};
  in.lives = {a};
  EXPECT_EQ(make_ledger(in).at(Leaf::init_first_step_extra), 0);  // two others: not known yet
  in.lives[0].steps.push_back({4, {500, 600}, true});
  EXPECT_EQ(make_ledger(in).at(Leaf::init_first_step_extra), 200);
  EXPECT_EQ(make_ledger(in).step_total(), 400);
}

TEST(Ledger, ARankThatEndedWellIsIdleUntilTheEndOrTheVerdict) {
  LedgerInput in{.ranks = 2, .launch_ns = 0, .end_ns = 100, .ended = true, .succeeded = true};
  RankLife a = life(0, 0, 0), b = life(1, 0, 0), b2 = life(1, 1, 80), a2 = life(0, 1, 80);
  a.ended_well_ns = 40;
  a.verdict_ns = b.verdict_ns = 60;
  a.last_progress_ns = 40;
  b.last_progress_ns = 50;
  in.lives = {a, b, a2, b2};
  const Ledger ledger = make_ledger(in);
  EXPECT_EQ(of(ledger.by_rank[0], Leaf::idle), 20);
  EXPECT_EQ(of(ledger.by_rank[0], Leaf::hang), 0);
  EXPECT_EQ(of(ledger.by_rank[1], Leaf::hang), 10);
  EXPECT_EQ(ledger.at(Leaf::evict), 40);
}

TEST(Ledger, AJobThatNeverPlacedAProcessIsAllProvision) {
  const Ledger ledger =
      make_ledger({.ranks = 3, .launch_ns = 5, .end_ns = 25, .ended = true, .succeeded = false});
  EXPECT_EQ(ledger.at(Leaf::provision), 60);
  EXPECT_EQ(ledger.total(), 60);
  EXPECT_EQ(make_ledger({.ranks = 3, .launch_ns = 5, .end_ns = 5}).goodput(), 0);
}

// Whatever the facts, wild ones included, the leaves sum to the total exactly, by rank and by
// attempt too, and none is negative.
TEST(Ledger, RandomLivesAlwaysSumExactly) {
  for (uint64_t seed = 0; seed < 500; ++seed) {
    Draw draw{seed + 1'000'000};
    LedgerInput in{.ranks = static_cast<int32_t>(1 + draw.below(4)), .launch_ns = draw.below(50)};
    in.end_ns = in.launch_ns + draw.below(2000);
    in.ended = draw.below(2) == 0;
    in.succeeded = draw.below(2) == 0;
    if (draw.below(2) == 0) in.committed_step = draw.below(10);
    const auto time = [&] { return draw.below(2200) - 50; };
    const int32_t attempts = static_cast<int32_t>(draw.below(4));
    for (int32_t attempt = 0; attempt < attempts; ++attempt) {
      if (draw.below(2) == 0) in.started_from[attempt] = draw.below(10);
      for (int32_t rank = 0; rank < in.ranks; ++rank) {
        RankLife l = life(rank, attempt, time());
        if (draw.below(3) == 0) l.first_record_ns = std::nullopt;
        if (draw.below(3) == 0) l.ended_well_ns = time();
        if (draw.below(2) == 0) l.verdict_ns = time();
        l.last_progress_ns = time();
        for (int64_t i = draw.below(20); i > 0; --i) {
          const int64_t begin = time();
          l.spans.push_back(
              {static_cast<Leaf>(draw.below(kLeafCount)), {begin, begin + draw.below(200) - 20}});
        }
        for (int64_t i = draw.below(6); i > 0; --i) {
          const int64_t begin = time();
          l.collectives.push_back(
              {"c", static_cast<uint64_t>(draw.below(4)), {begin, begin + draw.below(100) - 10}});
        }
        int64_t at = draw.below(300);
        for (int64_t i = draw.below(10); i > 0; --i) {
          const int64_t begin = at + draw.below(50), end = begin + draw.below(200);
          l.steps.push_back({draw.below(12), {begin, end}, draw.below(4) != 0});
          at = end;
        }
        in.lives.push_back(l);
      }
    }
    const Ledger ledger = make_ledger(in);
    ASSERT_EQ(sum(ledger.times), in.ranks * (in.end_ns - in.launch_ns)) << "seed " << seed;
    LeafTimes by_rank{}, by_attempt{};
    for (const LeafTimes& r : ledger.by_rank) {
      ASSERT_EQ(sum(r), in.end_ns - in.launch_ns);
      for (size_t i = 0; i < kLeafCount; ++i) by_rank[i] += r[i];
    }
    for (const auto& [attempt, r] : ledger.by_attempt)
      for (size_t i = 0; i < kLeafCount; ++i) by_attempt[i] += r[i];
    ASSERT_EQ(by_rank, ledger.times);
    ASSERT_EQ(by_attempt, ledger.times);
    for (const int64_t t : ledger.times) ASSERT_GE(t, 0);
  }
}

TEST(Ledger, TheJsonHasFlatIntegerKeysThatSumToTotal) {
  LedgerInput in{.ranks = 1, .launch_ns = 0, .end_ns = 7, .ended = true, .succeeded = true};
  const auto json = ledger_json(make_ledger(in));
  int64_t total = 0;
  for (const auto& [key, value] : json.items()) {
    ASSERT_TRUE(value.is_number_integer()) << key;
    if (key != "total") total += value.get<int64_t>();
  }
  EXPECT_EQ(json["total"], 7);
  EXPECT_EQ(total, 7);
  EXPECT_TRUE(json.contains("init.first_step_extra"));
  EXPECT_EQ(json.size(), kLeafCount + 1);
}

}  // namespace
}  // namespace muster
