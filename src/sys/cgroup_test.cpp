#include "sys/cgroup.h"

#include <gtest/gtest.h>

namespace muster {
namespace {

TEST(FindOwnCgroup, ReadsMountAndMembership) {
  const struct {
    const char* name;
    const char* mountinfo;
    const char* cgroup;
    const char* want;
  } cases[] = {
      {"unified", "30 23 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n", "0::/user.slice/a\n",
       "/sys/fs/cgroup/user.slice/a"},
      {"hybrid",
       "31 23 0:27 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n"
       "32 23 0:28 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n",
       "5:cpu:/x\n0::/\n", "/sys/fs/cgroup/unified"},
      {"container sees its own part only",
       "30 23 0:26 /docker/abc /sys/fs/cgroup rw - cgroup2 cgroup rw\n", "0::/docker/abc/in\n",
       "/sys/fs/cgroup/in"},
      {"optional fields before the dash",
       "30 23 0:26 / /cg rw,nosuid shared:9 master:1 - cgroup2 none rw\n", "0::/a\n", "/cg/a"},
      {"version 1 only", "31 23 0:27 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n", "0::/\n",
       "error: no cgroup v2 hierarchy is mounted"},
      {"not in a v2 group", "30 23 0:26 / /cg rw - cgroup2 none rw\n", "5:cpu:/x\n",
       "error: this process is in no cgroup v2 group"},
      {"nothing at all", "", "", "error: this process is in no cgroup v2 group"},
  };
  for (const auto& c : cases) {
    SCOPED_TRACE(c.name);
    const auto found = find_own_cgroup(c.mountinfo, c.cgroup);
    EXPECT_EQ(found.ok() ? *found : "error: " + found.error().message(), c.want);
  }
}

TEST(CgroupDir, MakesKillsAndRemovesWhereAllowed) {
  auto made = CgroupDir::make("muster-test-" + std::to_string(getpid()));
  if (!made.ok()) GTEST_SKIP() << made.error().to_string();
  EXPECT_TRUE(made->kill().ok());
  EXPECT_FALSE(CgroupDir::make("muster-test-" + std::to_string(getpid())).ok());
  made->remove();
  EXPECT_NE(access(made->path().c_str(), F_OK), 0);
}

}  // namespace
}  // namespace muster
