// RunRecords: what a run directory says about its jobs: events.sqlite and trace/. Read-only, also
// while the run is live.
#pragma once

#include <string>
#include <vector>

#include "insight/ledger/timeline.h"
#include "store/event_log.h"
#include "sys/files.h"
#include "trace/trace_data.h"

namespace muster {

struct RunRecords {
  std::vector<std::vector<Event>> jobs;  // one per launch, oldest first; at least one
  std::vector<TraceData> traces;
  bool live = false;                  // a supervisor holds the directory
  std::vector<std::string> problems;  // segments that could not be read
};

// `files` is rooted at `run_dir` (SQLite opens its file by itself, by path). Errors: not_found when
// it is no run directory; corrupt; not_found when no job was ever launched in it.
Result<RunRecords> read_run(Files& files, const std::string& run_dir);

// The timeline of the newest job. A job that neither ended nor is live ends at the last sign of it.
Result<JobTimeline> newest_timeline(const RunRecords& records, Nanos now);

}  // namespace muster
