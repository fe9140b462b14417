// Supervisor: runs one job of N ranks on this machine from launch to end. It owns the epoll loop,
// the ports, the store, the log pump and the trace regions of the ranks; what to do is decided by
// the pure job machine (job_machine.h), who is to blame by blame.h, silence by hang_judge.h.
//
// Process tree: the process that calls run() is the supervisor. Its Spawner's keeper is the parent
// of all ranks. If either dies the job ends within a second without a descendant left.
//
// Invariants: at most one live process per (rank, attempt); after run() returned no descendant of a
// rank is alive; the first cause in the report is never replaced by what teardown did.
//
// Threads: run() and all observer calls on the caller's thread; the log pump has a thread of its
// own. Exit codes: job_spec.h.
//
//   MUSTER_TRY(auto spawner, RealSpawner::start({}));   // early: it forks
//   Supervisor supervisor({clock, random, log, *spawner}, spec, &observer);
//   MUSTER_TRY(JobReport report, supervisor.run());
#pragma once

#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/log.h"
#include "base/random.h"
#include "base/result.h"
#include "runtime/supervise/job_spec.h"
#include "store/event_log.h"
#include "sys/spawner.h"

namespace muster {

struct WorkerView {
  Rank rank;
  Attempt attempt;
  pid_t pid = 0;
  bool running = false;
  uint64_t id = 0;  // of this start of the rank, unique in the job
  // Null without JobSpec::trace; lives until the next attempt_started.
  TraceRegion* trace = nullptr;
};

struct RestartDecision {
  bool allow = true;
  std::string reason;  // why not
  // Added to the environment of all ranks from now on (for example where to resume).
  std::vector<std::pair<std::string, std::string>> environment;
};

// What a caller may watch and decide. Every function has a do-nothing default. Calls must be short:
// detection waits for them.
class JobObserver {
 public:
  virtual ~JobObserver() = default;
  virtual void attempt_started(Attempt) {}
  virtual void worker_started(const WorkerView&) {}
  // `by_us`: it ended after a kill of ours.
  virtual void worker_exited(const WorkerView&, const ExitInfo&, bool /*by_us*/) {}
  virtual void cause_found(const Cause&) {}
  // Before ranks start again: `scope` is rank (cause.rank alone) or group. All ranks of a group
  // restart have ended by now.
  virtual RestartDecision before_restart(const Cause&, RestartScope /*scope*/, Attempt /*next*/) {
    return {};
  }
  // Every JobSpec::tick while ranks run.
  virtual void ticked(std::span<const WorkerView>) {}
};

class Supervisor {
 public:
  struct Seams {
    Clock& clock;
    Random& random;
    Log& log;
    Spawner& spawner;
    EventLog* events = nullptr;  // may be null; kinds in trace/vocabulary.h and job_events.h
  };
  // `observer` may be null. All must outlive the supervisor.
  Supervisor(Seams seams, JobSpec spec, JobObserver* observer);
  ~Supervisor();

  // Blocks until the job has ended. Errors are those of setting up (invalid_argument, busy port,
  // io); a job that fails is a report with a non-zero exit code.
  Result<JobReport> run();

  // As if the operator had sent `signal_number`; a second call kills at once. From observer calls.
  void request_stop(int signal_number);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace muster
