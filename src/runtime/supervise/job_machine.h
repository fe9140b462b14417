// JobMachine: the decisions of one job. A pure value: apply(event) changes the state and returns
// what must be done; it does no I/O and asks no clock. The supervisor executes the actions on real
// processes, tests on SimSpawner.
//
//   running ──bad exit──> wave ──wave_closed──> stopping ──all ended, swept──> deciding ──> running
//      │                                           │                              └───────> over
//      ├──all exits 0──> stopping                  └──stop, or no restart──> over
//      └──stop(signal)─> stopping
//
// Invariants (checked):
//  - at most one live start per rank; an id is never used twice;
//  - a kill is journalled in the state before its action is returned: an exit after it is ours;
//  - exits that were on the way when the first bad one was taken belong to the first wave, which
//    closes before the first kill; the cause is chosen from it and never changed by teardown;
//  - after `over` no action is returned.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "runtime/supervise/blame.h"
#include "runtime/supervise/job_spec.h"

namespace muster {

struct JobEvent {
  enum class Kind {
    start,         // begin the first attempt
    started,       // id, pid
    start_failed,  // id, error, text
    exited,        // id, exit
    wave_closed,   // evidence of the exits in `wave`; progress of the attempt
    stop,          // signal_number, from the operator
    time,          // a deadline asked for with wake_at may have passed
    hang,          // ranks
    swept,         // nothing is alive any more
    keeper_lost,
    decision,  // allow, text
  };
  Kind kind;
  Nanos now{0};
  uint64_t id = 0;
  pid_t pid = 0;
  int error = 0;
  int signal_number = 0;
  std::string text;
  ExitInfo exit;
  std::vector<ExitEvidence> wave;   // wave_closed: one for each rank in close_wave
  std::optional<int64_t> progress;  // wave_closed, hang: best step of this attempt
  std::vector<int32_t> ranks;       // hang
  bool allow = true;                // decision
};

struct JobAction {
  enum class Kind {
    begin_attempt,  // attempt: empty key space, new log folder; before its spawns
    spawn,          // rank, id
    signal,         // rank, id, signal_number to the group; journalled
    kill_tree,      // rank, id: leftovers of a rank that starts again alone
    kill_all,       // journalled for every live rank; answered by swept
    close_wave,     // take all exits that have come, then answer with wave_closed
    found_cause,    // cause
    ask_restart,    // scope, cause: answer with decision
    wake_at,        // when
    finish,         // the job is over; report() is final
  };
  Kind kind;
  int32_t rank = -1;
  uint64_t id = 0;
  int attempt = 0;
  int signal_number = 0;
  Cause cause;
  RestartScope scope = RestartScope::never;
  Nanos when{0};
};
using JobActions = std::vector<JobAction>;

struct JobRules {
  int ranks = 1;
  RestartPolicy restart;
  StopPolicy stop;
};

class JobMachine {
 public:
  enum class Phase { idle, running, wave, stopping, deciding, over };
  struct RankState {
    enum class Life { none, starting, running, ended };
    Life life = Life::none;
    uint64_t id = 0;
    pid_t pid = 0;
    bool killed = false;  // a kill of ours is journalled
    ExitInfo exit;
    std::string start_error;
    int start_errno = 0;
    Nanos ended_at{0};
    int restarts = 0;
  };

  explicit JobMachine(const JobRules& rules);

  JobActions apply(const JobEvent& event);

  Phase phase() const { return phase_; }
  int attempt() const { return attempt_; }
  int restarts() const { return restarts_; }
  const RankState& rank(int32_t rank) const { return ranks_.at(static_cast<size_t>(rank)); }
  // The rank whose current start has this id, else nothing (an earlier start, the template).
  std::optional<int32_t> rank_of(uint64_t id) const;
  size_t live() const;
  // Ranks whose evidence wave_closed must bring, in the order of their exits.
  const std::vector<int32_t>& wave() const { return wave_; }
  // Final once finish was returned.
  JobReport report() const;

 private:
  void on_start();
  void on_started(const JobEvent& event);
  void on_ended(const JobEvent& event);
  void on_wave_closed(const JobEvent& event);
  void on_stop(const JobEvent& event);
  void on_time(const JobEvent& event);
  void on_hang(const JobEvent& event);
  void on_swept(const JobEvent& event);
  void on_keeper_lost();
  void on_decision(const JobEvent& event);

  void begin_attempt();
  void spawn(int32_t rank);
  void note_cause(Cause cause, std::optional<int64_t> progress);
  // Why ranks may not start again after `cause`; nothing if they may.
  std::optional<std::string> refusal(const Cause& cause) const;
  std::vector<ExitEvidence> failures_while_stopping() const;
  void restart_rank_or_stop(const Cause& cause, Nanos now);
  void stop_ranks(int signal_number, Nanos grace, Nanos now);
  void kill_all();
  void sweep_when_ended();
  void finish(std::string verdict, int exit_code);
  JobAction& act(JobAction::Kind kind);
  bool bad(const RankState& rank) const;

  JobRules rules_;
  Phase phase_ = Phase::idle;
  int attempt_ = -1;
  uint64_t next_id_ = 1;
  std::vector<RankState> ranks_;
  std::vector<int32_t> wave_;  // bad exits, in the order in which they came
  std::optional<Nanos> kill_at_;
  bool sweeping_ = false;
  int stop_signal_ = 0;         // of the operator; 0 = none
  std::optional<Cause> cause_;  // of the current attempt
  std::vector<Cause> causes_;
  int restarts_ = 0;
  int64_t best_step_ = 0;
  int without_progress_ = 0;
  bool progress_known_ = false;
  std::string verdict_;
  int exit_code_ = 0;
  JobActions actions_;  // being collected by apply()
};

}  // namespace muster
