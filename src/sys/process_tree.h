// Looking at processes, finding and ending descendants. A subreaper inherits every orphan below it,
// so "waitid finds no child" proves that no descendant is left; until then the tree is walked and
// killed again.
#pragma once

#include <sys/types.h>

#include <functional>
#include <vector>

#include "base/clock.h"

namespace muster {

// Children of `pid` now. With `children_file` from /proc/<pid>/task/*/children, else by a scan of
// /proc. A child that ends during the call may hide another: callers repeat until nothing is left.
std::vector<pid_t> children_of(pid_t pid, bool children_file);

// All descendants of `root`, parents first, without `root`.
std::vector<pid_t> descendants_of(pid_t root, bool children_file);

// Whether the system does not let `pid` run: SIGSTOP or a debugger.
bool is_stopped(pid_t pid);

struct SweepOptions {
  bool children_file = true;
  std::vector<pid_t> keep;  // children of the caller that are not killed, nor what is below them
  // Called before each round, for example for cgroup.kill. May be empty.
  std::function<void()> before_round;
  // Called for each child that ended and is not yet waited for; it must do that.
  std::function<void(pid_t)> reap;
  Nanos limit = std::chrono::seconds{5};
};

// Kills every descendant of the calling process, which must be a subreaper, except `keep`, and
// reaps them through `reap`. Returns the pids that did not go within `limit` (uninterruptible
// ones).
std::vector<pid_t> sweep_descendants(const SweepOptions& options);

}  // namespace muster
