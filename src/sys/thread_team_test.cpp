#include "sys/thread_team.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <set>
#include <vector>

namespace muster {
namespace {

TEST(ThreadTeam, EveryMemberRunsOnceAndRunWaitsForAll) {
  for (int threads : {1, 2, 5}) {
    ThreadTeam team(threads);
    for (int round = 0; round < 200; ++round) {
      std::vector<int> calls(static_cast<size_t>(threads), 0);
      team.run([&](int member) { ++calls[static_cast<size_t>(member)]; });
      EXPECT_EQ(calls, std::vector<int>(static_cast<size_t>(threads), 1));
    }
  }
}

TEST(ThreadTeam, ParallelForCoversTheRangeInContiguousPartsCutAtTheGrain) {
  for (int threads : {1, 2, 3, 7}) {
    ThreadTeam team(threads);
    for (int64_t n : {0, 1, 5, 64, 1000}) {
      for (int64_t grain : {1, 7, 64, 5000}) {
        std::vector<std::atomic<int>> touched(static_cast<size_t>(n));
        team.parallel_for(n, grain, [&](int64_t begin, int64_t end, int member) {
          EXPECT_LT(member, threads);
          EXPECT_EQ(begin % grain, 0);
          EXPECT_TRUE(end % grain == 0 || end == n);
          for (int64_t i = begin; i < end; ++i) ++touched[static_cast<size_t>(i)];
        });
        for (const auto& count : touched) EXPECT_EQ(count, 1);
      }
    }
  }
}

TEST(ThreadTeam, AProcessMayForkBeforeTheFirstParallelCall) {
  ThreadTeam team(3);
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    std::atomic<int> sum{0};
    team.run([&](int member) { sum += member + 1; });
    _exit(sum == 6 ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

TEST(ThreadTeamDeathTest, CallsDoNotNest) {
  EXPECT_DEATH(
      {
        ThreadTeam team(2);
        team.run([&](int member) {
          if (member == 0) team.run([](int) {});
        });
      },
      "inside its own body");
}

}  // namespace
}  // namespace muster
