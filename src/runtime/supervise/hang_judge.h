// HangJudge: is the silence of a rank longer than it has ever had reason to be? One per rank and
// start. Pure: fed with progress snapshots and the time, it answers whether the rank is silent, and
// for how long. It learns the times of its steps, without the silence announced between them; the
// first step of a start warms up, so its time counts only until there is another. Who is to blame
// among silent ranks: hang_culprits.
//
// Silent: no change of the page for max(least, times_p99 x p99 of its step times), again after
// `confirm`. Before the first step is done: for start_limit.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "runtime/supervise/job_spec.h"
#include "trace/progress_page.h"

namespace muster {

class HangJudge {
 public:
  HangJudge(HangPolicy policy, Nanos started)
      : policy_(policy), last_change_(started), last_look_(started) {}

  // Returns what is wrong ("no progress for 12.1 s in step 57, limit 5 s") once it is confirmed.
  std::optional<std::string> look(const ProgressSnapshot& snapshot, Nanos now);

  // The time-out in force now.
  Nanos limit() const;

 private:
  void learn(Nanos step_time);

  HangPolicy policy_;
  Nanos last_change_, last_look_;
  uint64_t ops_ = 0;
  int64_t step_ = 0;
  Nanos step_began_{0};
  Nanos announced_{0};  // silence since step_began_ that was announced
  bool warm_ = false;   // a step besides the first was learned
  std::optional<Nanos> suspected_;
  std::vector<int64_t> step_times_;  // the last kKept, a ring
  size_t next_ = 0;
};

struct SilentRank {
  int32_t rank = 0;
  ProgressSnapshot progress;
  std::string what;      // the judge's words
  bool stopped = false;  // the system does not let it run (SIGSTOP, a debugger)
};

// Of `silent` ranks among `running` ones those that the others wait for: who is stopped, or else
// who is silent without waiting itself. Ranks that wait are blamed only when every running rank
// does: then those furthest behind. Empty: no verdict yet, since somebody who is not silent keeps
// the waiting ones waiting.
std::vector<SilentRank> hang_culprits(const std::vector<SilentRank>& silent, size_t running);

}  // namespace muster
