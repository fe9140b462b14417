#include "app/train/train_observer.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "trace/vocabulary.h"

namespace muster {

namespace {
constexpr Nanos kDrainEvery = std::chrono::seconds{1};
constexpr size_t kWindow = 20;  // steps that rates and shares are taken over
}  // namespace

TrainObserver::TrainObserver(const Clock& clock, Files& files, const RunDirectory& run,
                             LivePanel& panel, EventLog& events, int64_t steps)
    : clock_(clock),
      files_(files),
      run_(run),
      panel_(panel),
      event_log_(events),
      steps_(steps),
      launched_(clock.now()) {
  // What earlier jobs of this directory left is not news.
  if (const auto stat = files_.stat(run_.steps()); stat.ok()) log_offset_ = stat->size;
  if (const auto list = files_.list(run_.checkpoints()); list.ok()) {
    for (const DirectoryEntry& entry : *list) checkpoints_seen_.insert(entry.name);
  }
}

void TrainObserver::record(std::string_view kind, nlohmann::json payload, int32_t attempt) {
  const auto id = event_log_.append(kind, std::move(payload), attempt);
  if (!id.ok() && problems_.size() < 20) problems_.push_back(id.error().to_string());
}

void TrainObserver::note(std::string event) {
  events_.push_back(std::move(event));
  if (events_.size() > 3) events_.erase(events_.begin());
}

void TrainObserver::attempt_started(Attempt attempt) {
  attempt_ = attempt.value;
  ranks_.clear();
  if (attempt.value > 0) note(fmt::format("attempt {} started", attempt.value));
}

void TrainObserver::worker_started(const WorkerView& worker) {
  Watched watched;
  watched.region = worker.trace;
  if (worker.trace != nullptr) {
    auto segment = SegmentWriter::create(
        files_, run_.trace_segment(worker.attempt.value, worker.rank.value), *worker.trace);
    if (segment.ok())
      watched.segment.emplace(std::move(*segment));
    else
      problems_.push_back(segment.error().to_string());
  }
  if (worker.rank.value == 0) {
    follow_warnings();
    worker_log_ = fmt::format("{}/attempt_{}/0/stderr.log", run_.logs(), worker.attempt.value);
    const auto stat = files_.stat(worker_log_);
    worker_log_offset_ = stat.ok() ? stat->size : 0;  // an earlier job's lines are not news
    worker_log_rest_.clear();
  }
  ranks_.erase(worker.rank.value);
  ranks_.emplace(worker.rank.value, std::move(watched));
}

void TrainObserver::drain(Watched& watched) {
  if (!watched.segment) return;
  const auto report = watched.segment->drain();
  if (!report.ok() && problems_.size() < 20) problems_.push_back(report.error().to_string());
}

void TrainObserver::worker_exited(const WorkerView& worker, const ExitInfo&, bool) {
  const auto it = ranks_.find(worker.rank.value);
  if (it == ranks_.end()) return;
  it->second.running = false;
  drain(it->second);
}

void TrainObserver::cause_found(const Cause& cause) {
  follow_step_log();
  const int64_t last = steps_done_.empty() ? 0 : steps_done_.rbegin()->first;
  restarts_.push_back({cause.attempt.value, cause.reason, last, clock_.now() - launched_});
  panel_.message(cause.to_string());
}

RestartDecision TrainObserver::before_restart(const Cause&, RestartScope, Attempt next) {
  note(fmt::format("restarting as attempt {}", next.value));
  return {};
}

// Appends what `path` has behind `offset`; nothing while the file is not there.
static void read_on(Files& files, const std::string& path, int64_t& offset, std::string& text) {
  auto file = files.open(path, {OpenMode::read, false});
  if (!file.ok()) return;
  std::string piece(1 << 16, '\0');
  for (;;) {
    const auto got = files.read_at(*file, std::as_writable_bytes(std::span(piece)), offset);
    if (!got.ok() || *got == 0) break;
    offset += static_cast<int64_t>(*got);
    text.append(piece, 0, *got);
  }
  static_cast<void>(files.close(*file).ok());
}

// What rank 0 warns of or fails with (a damaged checkpoint passed over, a save that failed, a step
// that was skipped) concerns the operator, who does not read log files while all is well.
void TrainObserver::follow_warnings() {
  if (worker_log_.empty()) return;
  read_on(files_, worker_log_, worker_log_offset_, worker_log_rest_);
  size_t begin = 0;
  for (size_t end; (end = worker_log_rest_.find('\n', begin)) != std::string::npos;
       begin = end + 1) {
    const std::string line = worker_log_rest_.substr(begin, end - begin);
    for (const std::string level : {"warning", "error"}) {
      const size_t at = line.find(" " + level + " ");
      if (at == std::string::npos || problems_.size() >= 20) continue;
      problems_.push_back("rank 0: " + line.substr(at + level.size() + 2));
      panel_.message(level + ": " + problems_.back());
      break;
    }
  }
  worker_log_rest_.erase(0, begin);
}

void TrainObserver::follow_step_log() {
  read_on(files_, run_.steps(), log_offset_, log_rest_);
  size_t begin = 0;
  for (size_t end; (end = log_rest_.find('\n', begin)) != std::string::npos; begin = end + 1) {
    auto record = parse_step_line(std::string_view(log_rest_).substr(begin, end - begin));
    if (!record.ok()) continue;
    // The first step of an attempt tells which state it started from.
    if (record->attempt == attempt_ && attempt_with_restore_ != attempt_) {
      attempt_with_restore_ = attempt_;
      this->record(event_kind::kRestored, {{"step", record->step - 1}}, attempt_);
    }
    // A repeated step replaces what followed it before.
    steps_done_.erase(steps_done_.lower_bound(record->step), steps_done_.end());
    steps_done_[record->step] = std::move(*record);
  }
  log_rest_.erase(0, begin);
}

// A checkpoint is there when its folder has its final name (ckpt/commit.h).
void TrainObserver::follow_checkpoints() {
  const auto list = files_.list(run_.checkpoints());
  if (!list.ok()) return;
  for (const DirectoryEntry& entry : *list) {
    int64_t step = 0;
    if (entry.kind != FileKind::directory || !entry.name.starts_with("step-") ||
        entry.name.ends_with(".tmp"))
      continue;
    const char* digits = entry.name.data() + 5;
    const auto [end, status] = std::from_chars(digits, entry.name.data() + entry.name.size(), step);
    if (status != std::errc{} || end == digits || !checkpoints_seen_.insert(entry.name).second)
      continue;
    record(event_kind::kCommitted,
           {{"step", step}, {"path", run_.checkpoints() + "/" + entry.name}}, attempt_);
  }
}

PanelState TrainObserver::panel_state() const {
  PanelState state;
  state.title = run_.root();
  state.steps = steps_;
  state.elapsed = clock_.now() - launched_;
  state.restarts = static_cast<int>(restarts_.size());
  state.events = events_;
  for (const auto& [rank, watched] : ranks_) {
    PanelRank shown;
    shown.rank = rank;
    shown.running = watched.running;
    if (watched.region != nullptr) {
      const ProgressSnapshot progress = read_progress(watched.region->progress());
      shown.step = progress.step;
      shown.phase = phase_name(progress.phase);
    }
    state.ranks.push_back(std::move(shown));
  }
  if (steps_done_.empty()) return state;
  double seconds = 0, comm = 0, data = 0, checkpoint = 0, tokens = 0, flops = 0, step_seconds = 0,
         peak = 0;
  size_t counted = 0;
  for (auto it = steps_done_.rbegin(); it != steps_done_.rend() && counted < kWindow;
       ++it, ++counted) {
    const StepRecord& r = it->second;
    seconds += r.seconds;
    comm += r.exposed_comm_seconds;
    data += r.data_wait_seconds;
    checkpoint += r.checkpoint_wait_seconds;
    tokens += static_cast<double>(r.tokens);
    flops += r.model_flops;
    peak = r.peak_flops_per_second;
  }
  for (const auto& [step, r] : steps_done_) {
    state.losses.push_back(r.loss);
    step_seconds += r.seconds;
  }
  const StepRecord& last = steps_done_.rbegin()->second;
  state.step = last.step;
  state.loss = last.loss;
  if (seconds > 0) {
    state.tokens_per_second = tokens / seconds;
    state.exposed_comm = comm / seconds;
    state.data_wait = data / seconds;
    state.checkpoint_wait = checkpoint / seconds;
    if (peak > 0) {
      state.mfu = flops / (seconds * peak);
      state.mfu_label = "exact/measured-peak";
    }
    const double left =
        static_cast<double>(steps_ - last.step) * seconds / static_cast<double>(counted);
    state.eta = Nanos{static_cast<int64_t>(left * 1e9)};
  }
  const double elapsed = static_cast<double>(state.elapsed.count()) * 1e-9;
  if (elapsed > 0) state.goodput = std::min(1.0, step_seconds / elapsed);
  return state;
}

void TrainObserver::ticked(std::span<const WorkerView>) {
  if (clock_.now() - last_drain_ >= kDrainEvery) {
    for (auto& [rank, watched] : ranks_) drain(watched);
    follow_checkpoints();
    last_drain_ = clock_.now();
  }
  follow_step_log();
  follow_warnings();
  panel_.show(panel_state());
}

void TrainObserver::finish() {
  follow_checkpoints();
  for (auto& [rank, watched] : ranks_) drain(watched);
  follow_step_log();
  follow_warnings();
  panel_.finish(panel_state());
}

}  // namespace muster
