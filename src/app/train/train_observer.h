// TrainObserver: watches a training job for `muster train`: drains the workers' trace regions into
// segment files, follows the step log, keeps the live panel and collects what the report needs.
// Called on the supervisor's thread; every call is short.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "app/top/live_panel.h"
#include "runtime/supervise/supervisor.h"
#include "store/event_log.h"
#include "sys/files.h"
#include "trace/region.h"
#include "trace/segment.h"
#include "train/loop/run_directory.h"
#include "train/loop/step_log.h"

namespace muster {

class TrainObserver final : public JobObserver {
 public:
  struct Restart {
    int32_t attempt = 0;    // that failed
    std::string cause;      // one line
    int64_t last_step = 0;  // the furthest step seen before
    Nanos at{0};            // since launch
  };

  // All must outlive the observer.
  TrainObserver(const Clock& clock, Files& files, const RunDirectory& run, LivePanel& panel,
                EventLog& events, int64_t steps);

  void attempt_started(Attempt attempt) override;
  void worker_started(const WorkerView& worker) override;
  void worker_exited(const WorkerView& worker, const ExitInfo& exit, bool by_us) override;
  void cause_found(const Cause& cause) override;
  RestartDecision before_restart(const Cause& cause, RestartScope scope, Attempt next) override;
  void ticked(std::span<const WorkerView> workers) override;

  // The last drain and the last state of the panel.
  void finish();

  const std::vector<Restart>& restarts() const { return restarts_; }
  const std::vector<std::string>& problems() const { return problems_; }

 private:
  struct Watched {
    TraceRegion* region = nullptr;  // the supervisor's
    std::optional<SegmentWriter> segment;
    bool running = true;
  };
  void drain(Watched& watched);
  void follow_step_log();
  void follow_warnings();
  PanelState panel_state() const;
  void note(std::string event);
  void follow_checkpoints();
  void record(std::string_view kind, nlohmann::json payload, int32_t attempt);

  const Clock& clock_;
  Files& files_;
  const RunDirectory& run_;
  LivePanel& panel_;
  EventLog& event_log_;
  const int64_t steps_;
  const Nanos launched_;
  Nanos last_drain_{0};
  std::map<int32_t, Watched> ranks_;
  std::string worker_log_;  // rank 0's standard error in this attempt; empty before
  int64_t worker_log_offset_ = 0;
  std::string worker_log_rest_;
  int64_t log_offset_ = 0;
  std::string log_rest_;                      // an unfinished line
  std::map<int64_t, StepRecord> steps_done_;  // the last record of each step
  std::set<std::string> checkpoints_seen_;
  int32_t attempt_ = 0, attempt_with_restore_ = -1;
  std::vector<std::string> events_;
  std::vector<Restart> restarts_;
  std::vector<std::string> problems_;
};

}  // namespace muster
