// What every backend does. Each test runs on shared memory with buffers in the segment and outside
// of it, on TCP, and on simulated TCP.
#include <gtest/gtest.h>

#include <atomic>
#include <limits>
#include <numeric>

#include "comm/group_test_world.h"

namespace muster {
namespace {

using namespace std::chrono_literals;

struct GroupTest : testing::TestWithParam<Backend> {
  GroupOptions options;
  GroupTest() {
    options.timeout = 60s;
    options.staging_bytes = 64 << 10;  // small, so that much needs several rounds
  }
  Backend backend() const { return GetParam(); }
  void run(int world, const std::function<void(Communicator&)>& body) {
    RankThreads(backend(), world, options).run(body);
  }
};

template <class T>
std::vector<T> copy_of(std::span<const T> data) {
  return {data.begin(), data.end()};
}

template <class T>
void expect_tree_sums(Communicator& group, Backend backend, int64_t leaves, int64_t count) {
  SCOPED_TRACE(testing::Message() << "rank " << group.rank().value << " of " << group.world()
                                  << ", " << leaves << " leaves, " << count << " elements");
  Buffers buffers(group, backend);
  const auto parts = make_parts<T>(buffers, group, leaves, count);
  const std::vector<T> want = reference_sum<T>(leaves, count);
  const std::span<T> out = buffers.make<T>(count);
  ASSERT_TRUE(group.all_reduce_tree<T>(pointers(parts), leaves, out).wait());
  EXPECT_EQ(copy_of<T>(out), want);

  // Slices that no rule made: the first takes two thirds, the second nothing.
  std::vector<int64_t> bounds(static_cast<size_t>(group.world()) + 1, count);
  bounds[0] = 0;
  for (size_t r = 1; r + 1 < bounds.size(); ++r) bounds[r] = count * 2 / 3;
  const int64_t begin = bounds[static_cast<size_t>(group.rank().value)];
  const int64_t end = bounds[static_cast<size_t>(group.rank().value) + 1];
  const std::span<T> slice = buffers.make<T>(end - begin);
  ASSERT_TRUE(group.reduce_scatter_tree<T>(pointers(parts), leaves, bounds, slice).wait());
  EXPECT_EQ(copy_of<T>(slice), std::vector<T>(want.begin() + begin, want.begin() + end));

  if (parts.empty()) {
    ASSERT_TRUE(group.all_reduce_tree<T>({}, leaves, out).wait());
  } else {  // in place
    ASSERT_TRUE(group.all_reduce_tree<T>(pointers(parts), leaves, parts[0]).wait());
    EXPECT_EQ(copy_of<T>(parts[0]), want);
  }
}

TEST_P(GroupTest, TreeSumsHaveOneRanksBitsForEveryNumberOfRanksAndLeaves) {
  for (const int world : {1, 2, 3, 4})
    run(world, [&](Communicator& group) {
      for (int64_t leaves = 1; leaves <= 9; ++leaves)
        expect_tree_sums<float>(group, backend(), leaves, 67);
    });
}

TEST_P(GroupTest, AnySizeFromNothingToManyRounds) {
  for (const int world : {2, 3})
    run(world, [&](Communicator& group) {
      for (const int64_t count : {0, 1, 15, 16, 33, 40'000})
        expect_tree_sums<float>(group, backend(), 5, count);
    });
}

TEST_P(GroupTest, DoublesAndIntegers) {
  run(3, [&](Communicator& group) {
    expect_tree_sums<double>(group, backend(), 7, 100);
    expect_tree_sums<int64_t>(group, backend(), 7, 100);
  });
}

TEST_P(GroupTest, RankSumsAndMaxima) {
  run(3, [&](Communicator& group) {
    const int r = group.rank().value;
    double loss[2] = {r + 0.5, -1.0 * r};
    ASSERT_TRUE(group.all_reduce(std::span<double>(loss), ReduceOp::sum).wait());
    EXPECT_EQ(loss[0], 4.5);
    EXPECT_EQ(loss[1], -3.0);
    int64_t tokens = int64_t{1} << (r + 40);
    ASSERT_TRUE(group.all_reduce(std::span(&tokens, 1), ReduceOp::max).wait());
    EXPECT_EQ(tokens, int64_t{1} << 42);
    float worst = r == 1 ? std::numeric_limits<float>::quiet_NaN() : static_cast<float>(r);
    ASSERT_TRUE(group.all_reduce(std::span(&worst, 1), ReduceOp::max).wait());
    EXPECT_TRUE(std::isnan(worst));
  });
}

TEST_P(GroupTest, GatherGivesEveryRanksSliceToAll) {
  run(3, [&](Communicator& group) {
    Buffers buffers(group, backend());
    for (const int64_t unit : {0, 1, 1000, 50'000}) {
      const std::vector<int64_t> bounds = {0, unit, unit, 4 * unit};  // rank 1 gives nothing
      const auto r = static_cast<size_t>(group.rank().value);
      const std::span<float> mine = buffers.make<float>(bounds[r + 1] - bounds[r]);
      std::iota(mine.begin(), mine.end(), static_cast<float>(bounds[r]));
      const std::span<float> all = buffers.make<float>(bounds.back());
      ASSERT_TRUE(group.all_gather<float>(mine, bounds, all).wait());
      std::vector<float> want(all.size());
      std::iota(want.begin(), want.end(), 0.0f);
      EXPECT_EQ(copy_of<float>(all), want);
      // In place.
      std::fill(all.begin(), all.end(), -1.0f);
      const auto own = all.subspan(static_cast<size_t>(bounds[r]), mine.size());
      std::copy(mine.begin(), mine.end(), own.begin());
      ASSERT_TRUE(group.all_gather<float>(own, bounds, all).wait());
      EXPECT_EQ(copy_of<float>(all), want);
    }
  });
}

TEST_P(GroupTest, BroadcastFromEveryRoot) {
  run(3, [&](Communicator& group) {
    Buffers buffers(group, backend());
    for (int32_t root = 0; root < 3; ++root)
      for (const int64_t bytes : {0, 1, 200'000}) {
        const std::span<std::byte> data = buffers.make<std::byte>(bytes);
        const auto value = [&](int rank) { return static_cast<std::byte>(rank + 1); };
        std::fill(data.begin(), data.end(), value(group.rank().value));
        ASSERT_TRUE(group.broadcast(data, Rank{root}).wait());
        EXPECT_EQ(std::count(data.begin(), data.end(), value(root)), bytes);
      }
  });
}

TEST_P(GroupTest, MessagesOfAnySizeReachEverybody) {
  run(4, [&](Communicator& group) {
    const auto message = [](int rank) {
      const size_t sizes[] = {0, 5, 300'000, 1};
      return std::string(sizes[rank], static_cast<char>('a' + rank));
    };
    const auto all = group.gather_bytes(message(group.rank().value));
    ASSERT_TRUE(all) << all.error().to_string();
    for (int r = 0; r < 4; ++r) EXPECT_EQ((*all)[r], message(r));
  });
}

TEST_P(GroupTest, ManyMayBeStartedBeforeAnyIsWaitedFor) {
  for (const Progress progress : {Progress::caller, Progress::thread}) {
    if (progress == Progress::thread && backend() == Backend::sim_tcp)
      continue;  // more threads than
                 // participants
    options.progress = progress;
    run(2, [&](Communicator& group) {
      Buffers buffers(group, backend());
      std::vector<std::span<double>> data;
      std::vector<Work> works;
      for (int i = 0; i < 200; ++i) {  // more than the queue holds
        data.push_back(buffers.make<double>(3));
        std::fill(data.back().begin(), data.back().end(), i + group.rank().value);
        works.push_back(group.all_reduce(data.back(), ReduceOp::sum));
      }
      ASSERT_TRUE(works.back().wait());  // the others are done by then
      for (int i = 0; i < 200; ++i) EXPECT_EQ(data[i][2], 2 * i + 1);
      for (Work& work : works) EXPECT_TRUE(work.wait());
    });
  }
}

TEST_P(GroupTest, NoRankPassesABarrierBeforeAllHaveCome) {
  std::atomic<int> came = 0;
  run(4, [&](Communicator& group) {
    for (int round = 1; round <= 20; ++round) {
      ++came;
      ASSERT_TRUE(group.barrier().wait());
      EXPECT_GE(came, 4 * round);
      ASSERT_TRUE(group.barrier().wait());
    }
  });
}

TEST_P(GroupTest, RanksInDifferentOperationsAllLearnOfIt) {
  const struct {
    const char* name;
    std::function<Work(Communicator&, std::span<float>)> other;
  } cases[] = {
      {"kind", [](Communicator& g,
                  std::span<float> d) { return g.broadcast(std::as_writable_bytes(d), Rank{0}); }},
      {"size",
       [](Communicator& g, std::span<float> d) { return g.all_reduce(d.first(9), ReduceOp::sum); }},
      {"operator",
       [](Communicator& g, std::span<float> d) { return g.all_reduce(d, ReduceOp::max); }},
  };
  for (const auto& c : cases) {
    SCOPED_TRACE(c.name);
    run(2, [&](Communicator& group) {
      std::vector<float> data(10, 1.0f);
      ASSERT_TRUE(group.barrier().wait());
      const Status status = group.rank().value == 0
                                ? group.all_reduce(std::span(data), ReduceOp::sum).wait()
                                : c.other(group, data).wait();
      ASSERT_FALSE(status);
      EXPECT_EQ(status.error().code(), Code::invalid_argument) << status.error().to_string();
      const Status later = group.barrier().wait();  // broken for good
      EXPECT_EQ(later.error().code(), Code::invalid_argument);
    });
  }
}

TEST_P(GroupTest, ALateRankIsNamedByATimeout) {
  options.timeout = backend() == Backend::sim_tcp ? Nanos(300s) : Nanos(300ms);
  std::atomic<int> told = 0;
  run(3, [&](Communicator& group) {
    ASSERT_TRUE(group.barrier().wait());
    if (group.rank().value == 2) {
      // Comes only when the others have given up, and learns that.
      if (backend() != Backend::sim_tcp) told.wait(0);
      if (backend() != Backend::sim_tcp) told.wait(1);
      if (backend() == Backend::sim_tcp) return;
      Status status = group.barrier().wait();
      // Over TCP what they sent before they gave up is still there.
      if (status) status = group.barrier().wait();
      EXPECT_FALSE(status);
      return;
    }
    const Status status = group.barrier().wait();
    ASSERT_FALSE(status);
    if (backend() == Backend::sim_tcp) {
      EXPECT_EQ(status.error().code(), Code::cancelled) << status.error().to_string();
    } else {
      EXPECT_EQ(status.error().code(), Code::timeout) << status.error().to_string();
      EXPECT_EQ(group.missing(), (RankSet{2})) << status.error().to_string();
    }
    ++told;
    told.notify_all();
  });
}

TEST_P(GroupTest, AbortFromAnotherThreadWakesEverybody) {
  if (backend() == Backend::sim_tcp) GTEST_SKIP() << "the aborting thread is no participant";
  run(3, [&](Communicator& group) {
    Status status = group.barrier().wait();
    if (group.rank().value == 2) {
      std::thread([&] { group.abort("told to stop"); }).join();
      return;
    }
    if (status) status = group.barrier().wait();
    ASSERT_FALSE(status);
    EXPECT_EQ(status.error().code(), Code::cancelled) << status.error().to_string();
  });
}

TEST_P(GroupTest, AbortWakesTheRankThatWaitsItself) {
  if (backend() == Backend::sim_tcp) GTEST_SKIP() << "the aborting thread is no participant";
  std::atomic<bool> over = false;
  run(2, [&](Communicator& group) {
    if (group.rank().value == 1) return over.wait(false);  // never comes
    std::thread aborter([&] { group.abort("told to stop"); });
    const Status status = group.barrier().wait();
    aborter.join();
    over = true;
    over.notify_all();
    ASSERT_FALSE(status);
    EXPECT_EQ(status.error().code(), Code::cancelled);
    EXPECT_NE(status.error().to_string().find("told to stop"), std::string::npos)
        << status.error().to_string();
  });
}

TEST_P(GroupTest, ARankThatLeavesEndsTheOthersWaits) {
  run(3, [&](Communicator& group) {
    ASSERT_TRUE(group.barrier().wait());
    if (group.rank().value == 1) return;
    const Status status = group.barrier().wait();
    ASSERT_FALSE(status);
    EXPECT_TRUE(status.error().code() == Code::cancelled ||
                status.error().code() == Code::peer_lost)
        << status.error().to_string();
  });
}

INSTANTIATE_TEST_SUITE_P(All, GroupTest,
                         testing::Values(Backend::shm, Backend::shm_staged, Backend::tcp,
                                         Backend::sim_tcp),
                         [](const auto& param) { return backend_name(param.param); });

TEST(SimulatedGroup, APartitionedRankIsNamedAndNoTimeIsSpent) {
  GroupOptions options;
  options.timeout = 300s;
  RankThreads ranks(Backend::sim_tcp, 2, options);
  ranks.run([&](Communicator& group) {
    ASSERT_TRUE(group.barrier().wait());
    if (group.rank().value == 0)
      ranks.network().partition(RankThreads::host_name(0), RankThreads::host_name(1), true);
    double x = 0;
    Status status = group.all_reduce(std::span(&x, 1), ReduceOp::sum).wait();
    if (status) status = group.all_reduce(std::span(&x, 1), ReduceOp::sum).wait();
    ASSERT_FALSE(status);
    EXPECT_EQ(status.error().code(), Code::timeout) << status.error().to_string();
    EXPECT_EQ(group.missing(), (RankSet{1 - group.rank().value}));
  });
}

TEST(SimulatedGroup, AResetIsPeerLost) {
  RankThreads ranks(Backend::sim_tcp, 2, {});
  ranks.run([&](Communicator& group) {
    Status status = group.barrier().wait();
    if (group.rank().value == 0) ranks.network().reset(RankThreads::host_name(1));
    for (int i = 0; i < 2 && status; ++i) status = group.barrier().wait();
    ASSERT_FALSE(status);
    EXPECT_EQ(status.error().code(), Code::peer_lost) << status.error().to_string();
  });
}

TEST(EvenBounds, CoverEverythingAtMultiplesOfTheGrain) {
  EXPECT_EQ(even_bounds(100, 3, 16), (std::vector<int64_t>{0, 32, 64, 100}));
  EXPECT_EQ(even_bounds(0, 2, 16), (std::vector<int64_t>{0, 0, 0}));
  EXPECT_EQ(even_bounds(5, 4, 16), (std::vector<int64_t>{0, 0, 0, 0, 5}));
}

}  // namespace
}  // namespace muster
