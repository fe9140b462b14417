#include "insight/ledger/run_records.h"

#include <fmt/format.h>

#include "trace/segment.h"

namespace muster {
Result<RunRecords> read_run(Files& files, const std::string& run_dir) {
  RunRecords records;
  // Before the events: a job that ends in between is then seen as ended.
  MUSTER_TRY(records.live, files.is_locked("lock"));
  MUSTER_TRY(const EventLog log, EventLog::open_read_only(run_dir + "/events.sqlite"));
  MUSTER_TRY(const std::vector<Event> events, log.query({}));
  records.jobs = split_jobs(events);
  if (records.jobs.empty())
    return Error(Code::not_found,
                 fmt::format("no job was launched in {}: its event log has {} events and no launch",
                             run_dir, events.size()));
  MUSTER_TRY(records.traces, read_segments(files, records.problems));
  return records;
}

Result<JobTimeline> newest_timeline(const RunRecords& records, Nanos now) {
  MUSTER_TRY(JobTimeline timeline,
             make_timeline(records.jobs.back(), records.traces, records.live ? now.count() : 0));
  timeline.problems.insert(timeline.problems.begin(), records.problems.begin(),
                           records.problems.end());
  return timeline;
}

}  // namespace muster
