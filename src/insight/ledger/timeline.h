// Timeline: from what a run left behind (event log, traces) to the facts of a ledger. Pure.
//
// Reads the words of trace/vocabulary.h. Lenient: what is missing makes time `other`, what does not
// fit together is left out and told in `problems`.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "insight/ledger/ledger.h"
#include "store/event_log.h"
#include "trace/trace_data.h"

namespace muster {

// An attempt that failed and what became of it.
struct RestartFacts {
  int32_t attempt = 0;
  int32_t culprit = -1;  // rank
  int64_t verdict_ns = 0;
  std::string cause, message;
  bool rank_only = false;                    // only the culprit was restarted
  bool restarted = false;                    // a process was placed again after it
  std::optional<int64_t> next_started_from;  // step; none: no later attempt said or showed it
};

struct JobTimeline {
  LedgerInput ledger;
  std::vector<RestartFacts> failures;  // in order of time
  nlohmann::json launch;               // payload of job.launch
  nlohmann::json end;                  // payload of job.end; null while it runs
  int64_t launch_wall_ns = 0;
  std::vector<std::string> problems;

  int64_t restarts() const {
    return std::count_if(failures.begin(), failures.end(),
                         [](const RestartFacts& f) { return f.restarted; });
  }
};

// Splits an event log at its job.launch events: a run directory that was resumed holds several
// jobs. Events before the first launch belong to none.
std::vector<std::vector<Event>> split_jobs(const std::vector<Event>& events);

// `events` of one job; `traces` of its attempts (others are ignored). `now_ns` ends a job that
// still runs; 0: the newest time seen ends it, for a job whose supervisor died. Errors:
// invalid_argument without a job.launch that says how many ranks.
Result<JobTimeline> make_timeline(const std::vector<Event>& events,
                                  const std::vector<TraceData>& traces, int64_t now_ns);

// The spans of one process, for make_timeline and tests.
RankLife life_from_trace(const TraceData& trace, int64_t placed_ns);

}  // namespace muster
