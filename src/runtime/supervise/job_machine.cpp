#include "runtime/supervise/job_machine.h"

#include <algorithm>
#include <cerrno>
#include <utility>

#include "base/check.h"

namespace muster {

using Life = JobMachine::RankState::Life;

JobMachine::JobMachine(const JobRules& rules) : rules_(rules) {
  MUSTER_CHECK(rules_.ranks >= 1, rules_.ranks);
  ranks_.resize(static_cast<size_t>(rules_.ranks));
}

std::optional<int32_t> JobMachine::rank_of(uint64_t id) const {
  // Ids are handed out in order of ranks within an attempt, so the first guess mostly hits.
  for (size_t i = 0; i < ranks_.size(); ++i)
    if (ranks_[i].id == id && id != 0) return static_cast<int32_t>(i);
  return std::nullopt;
}

size_t JobMachine::live() const {
  return static_cast<size_t>(std::count_if(ranks_.begin(), ranks_.end(), [](const RankState& r) {
    return r.life == Life::starting || r.life == Life::running;
  }));
}

bool JobMachine::bad(const RankState& rank) const {
  return rank.life == Life::ended && !rank.killed &&
         (!rank.start_error.empty() || !rank.exit.success());
}

JobAction& JobMachine::act(JobAction::Kind kind) {
  JobAction& action = actions_.emplace_back();
  action.kind = kind;
  return action;
}

JobActions JobMachine::apply(const JobEvent& event) {
  using Kind = JobEvent::Kind;
  actions_.clear();
  if (phase_ == Phase::over) return {};
  switch (event.kind) {
    case Kind::start:
      on_start();
      break;
    case Kind::started:
      on_started(event);
      break;
    case Kind::start_failed:
    case Kind::exited:
      on_ended(event);
      break;
    case Kind::wave_closed:
      on_wave_closed(event);
      break;
    case Kind::stop:
      on_stop(event);
      break;
    case Kind::time:
      on_time(event);
      break;
    case Kind::hang:
      on_hang(event);
      break;
    case Kind::swept:
      on_swept(event);
      break;
    case Kind::keeper_lost:
      on_keeper_lost();
      break;
    case Kind::decision:
      on_decision(event);
      break;
  }
  return std::move(actions_);
}

void JobMachine::on_start() {
  MUSTER_CHECK(phase_ == Phase::idle);
  begin_attempt();
}

void JobMachine::begin_attempt() {
  phase_ = Phase::running;
  ++attempt_;
  wave_.clear();
  cause_.reset();
  kill_at_.reset();
  sweeping_ = false;
  act(JobAction::Kind::begin_attempt).attempt = attempt_;
  for (int32_t rank = 0; rank < rules_.ranks; ++rank) spawn(rank);
}

void JobMachine::spawn(int32_t rank) {
  RankState& state = ranks_[static_cast<size_t>(rank)];
  MUSTER_CHECK(state.life == Life::none || state.life == Life::ended, rank);
  RankState fresh;
  fresh.life = Life::starting;
  fresh.id = next_id_++;
  fresh.restarts = state.restarts + (state.life == Life::ended ? 1 : 0);
  state = fresh;
  JobAction& action = act(JobAction::Kind::spawn);
  action.rank = rank;
  action.id = fresh.id;
  action.attempt = attempt_;
}

void JobMachine::on_started(const JobEvent& event) {
  const auto rank = rank_of(event.id);
  if (!rank) return;
  RankState& state = ranks_[static_cast<size_t>(*rank)];
  MUSTER_CHECK(state.life == Life::starting, *rank);
  state.life = Life::running;
  state.pid = event.pid;
}

void JobMachine::on_ended(const JobEvent& event) {
  const auto rank = rank_of(event.id);
  if (!rank) return;
  RankState& state = ranks_[static_cast<size_t>(*rank)];
  MUSTER_CHECK(state.life == Life::starting || state.life == Life::running, *rank);
  state.life = Life::ended;
  state.exit = event.exit;
  state.ended_at = event.now;
  if (event.kind == JobEvent::Kind::start_failed) {
    state.start_error = event.text.empty() ? "unknown error" : event.text;
    state.start_errno = event.error;
  }
  if (phase_ == Phase::running || phase_ == Phase::wave) {
    if (bad(state)) {
      wave_.push_back(*rank);
      if (phase_ == Phase::running) {
        phase_ = Phase::wave;
        act(JobAction::Kind::close_wave);
      }
    } else if (live() == 0 && phase_ == Phase::running) {
      phase_ = Phase::stopping;
    }
  }
  sweep_when_ended();
}

// Orphans of ranks that have ended go before anything else happens.
void JobMachine::sweep_when_ended() {
  if (phase_ == Phase::stopping && live() == 0 && !sweeping_) {
    sweeping_ = true;
    act(JobAction::Kind::kill_all);
  }
}

void JobMachine::on_wave_closed(const JobEvent& event) {
  if (phase_ != Phase::wave) return;
  MUSTER_CHECK(!event.wave.empty());
  Cause cause = choose_cause(event.wave, Attempt{attempt_});
  note_cause(cause, event.progress);
  if (rules_.restart.scope == RestartScope::rank && stop_signal_ == 0) {
    restart_rank_or_stop(cause, event.now);
    return;
  }
  stop_ranks(rules_.stop.fail_signal, rules_.stop.fail_grace, event.now);
}

void JobMachine::note_cause(Cause cause, std::optional<int64_t> progress) {
  if (progress) {
    progress_known_ = true;
    without_progress_ = *progress > best_step_ ? 0 : without_progress_ + 1;
    best_step_ = std::max(best_step_, *progress);
  }
  cause_ = cause;
  causes_.push_back(cause);
  act(JobAction::Kind::found_cause).cause = std::move(cause);
}

std::optional<std::string> JobMachine::refusal(const Cause& cause) const {
  const RestartPolicy& policy = rules_.restart;
  if (policy.scope == RestartScope::never) return "no restart was asked for";
  if (cause.kind == CauseKind::start_failed &&
      (cause.exit_code == kExitNotFound || cause.exit_code == kExitNotExecutable))
    return "the program cannot be run, so starting it again would not help";
  if (cause.kind == CauseKind::start_failed && cause.exit_code == kExitHang)
    return "a template that hangs would hang again";
  if (cause.kind == CauseKind::exit_code && cause.exit.code == policy.no_restart_code)
    return "exit code " + std::to_string(policy.no_restart_code) + " asks for no restart";
  if (policy.attempts_without_progress > 0 && progress_known_ &&
      without_progress_ >= policy.attempts_without_progress)
    return "restart loop without progress: " + std::to_string(without_progress_) +
           " attempts in a row did not pass step " + std::to_string(best_step_);
  if (restarts_ >= policy.max_restarts)
    return std::to_string(restarts_) + " of " + std::to_string(policy.max_restarts) +
           " restarts used";
  return std::nullopt;
}

// The ranks of the wave start again one by one; the others know nothing of it.
void JobMachine::restart_rank_or_stop(const Cause& cause, Nanos now) {
  if (const auto why = refusal(cause)) {
    verdict_ = *why;
    stop_ranks(rules_.stop.fail_signal, rules_.stop.fail_grace, now);
    return;
  }
  phase_ = Phase::deciding;
  JobAction& action = act(JobAction::Kind::ask_restart);
  action.scope = RestartScope::rank;
  action.cause = cause;
  action.attempt = attempt_;
}

void JobMachine::stop_ranks(int signal_number, Nanos grace, Nanos now) {
  phase_ = Phase::stopping;
  if (live() == 0) return sweep_when_ended();
  if (signal_number == SIGKILL) return kill_all();
  for (int32_t rank = 0; rank < rules_.ranks; ++rank) {
    RankState& state = ranks_[static_cast<size_t>(rank)];
    if (state.life != Life::starting && state.life != Life::running) continue;
    state.killed = true;
    JobAction& action = act(JobAction::Kind::signal);
    action.rank = rank;
    action.id = state.id;
    action.signal_number = signal_number;
  }
  kill_at_ = now + grace;
  act(JobAction::Kind::wake_at).when = *kill_at_;
}

void JobMachine::kill_all() {
  for (RankState& state : ranks_)
    if (state.life == Life::starting || state.life == Life::running) state.killed = true;
  kill_at_.reset();
  sweeping_ = true;
  act(JobAction::Kind::kill_all);
}

void JobMachine::on_stop(const JobEvent& event) {
  const bool second = stop_signal_ != 0;
  if (!second) stop_signal_ = event.signal_number;
  if (second || event.signal_number == SIGKILL) {
    phase_ = Phase::stopping;
    if (!sweeping_) kill_all();
    return;
  }
  if (phase_ == Phase::running) stop_ranks(event.signal_number, rules_.stop.stop_grace, event.now);
}

void JobMachine::on_time(const JobEvent& event) {
  if (phase_ == Phase::stopping && kill_at_ && event.now >= *kill_at_ && !sweeping_) kill_all();
}

void JobMachine::on_hang(const JobEvent& event) {
  if (event.ranks.empty()) return;
  // It would not heed the signal to stop either, nor would those that wait for it.
  if (phase_ == Phase::stopping && !sweeping_) return kill_all();
  if (phase_ != Phase::running) return;
  Cause cause;
  cause.kind = CauseKind::hang;
  cause.rank = Rank{event.ranks.front()};
  cause.attempt = Attempt{attempt_};
  cause.pid = rank(event.ranks.front()).pid;
  cause.culprits = event.ranks;
  cause.reason = "hangs: " + event.text;
  cause.exit_code = kExitHang;
  note_cause(std::move(cause), event.progress);
  // A rank that hangs is stuck somewhere that no handler is likely to leave, and so are its peers.
  kill_all();
  phase_ = Phase::stopping;
}

// Ranks that had more to say than that they were told to stop: a crash, or a request for no restart
// (a last state that could not be saved).
std::vector<ExitEvidence> JobMachine::failures_while_stopping() const {
  constexpr int kCrashes[] = {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT, SIGSYS};
  std::vector<ExitEvidence> failures;
  for (int32_t rank = 0; rank < rules_.ranks; ++rank) {
    const RankState& state = ranks_[static_cast<size_t>(rank)];
    const ExitInfo& exit = state.exit;
    const bool crashed =
        std::find(std::begin(kCrashes), std::end(kCrashes), exit.signal) != std::end(kCrashes);
    const bool asked = exit.signal == 0 && exit.code == rules_.restart.no_restart_code;
    if (!crashed && !asked) continue;
    ExitEvidence evidence;
    evidence.rank = rank;
    evidence.pid = state.pid;
    evidence.exit = exit;
    evidence.at = state.ended_at;
    failures.push_back(std::move(evidence));
  }
  return failures;
}

void JobMachine::on_swept(const JobEvent& event) {
  if (phase_ != Phase::stopping || !sweeping_) return;
  sweeping_ = false;
  if (live() > 0) return;  // exits that are still on the way sweep again
  if (!event.text.empty())
    return finish("processes that cannot be killed are left: " + event.text,
                  cause_ ? cause_->exit_code : 1);
  if (!cause_ && stop_signal_ != 0) {
    const std::string verdict = "stopped by " + signal_name(stop_signal_);
    if (const auto failed = failures_while_stopping(); !failed.empty()) {
      note_cause(choose_cause(failed, Attempt{attempt_}), std::nullopt);
      return finish(verdict, cause_->exit_code);
    }
    const bool clean = std::all_of(ranks_.begin(), ranks_.end(), [](const RankState& r) {
      return r.start_error.empty() && r.exit.success();
    });
    return finish(verdict, clean ? 0 : 128 + stop_signal_);
  }
  if (!cause_) return finish("done", 0);
  if (stop_signal_ != 0)
    return finish("failed, then stopped by " + signal_name(stop_signal_), cause_->exit_code);
  if (!verdict_.empty()) return finish("failed: " + verdict_, cause_->exit_code);
  if (const auto why = refusal(*cause_)) return finish("failed: " + *why, cause_->exit_code);
  phase_ = Phase::deciding;
  JobAction& action = act(JobAction::Kind::ask_restart);
  action.scope = RestartScope::group;
  action.cause = *cause_;
  action.attempt = attempt_ + 1;
}

void JobMachine::on_decision(const JobEvent& event) {
  if (phase_ != Phase::deciding) return;
  // A hang has stopped all ranks; any other failure left the peers running.
  const bool alone = rules_.restart.scope == RestartScope::rank && !wave_.empty();
  if (!event.allow || stop_signal_ != 0) {
    verdict_ = event.allow ? "stopped by " + signal_name(stop_signal_) : event.text;
    stop_ranks(rules_.stop.fail_signal, rules_.stop.fail_grace, event.now);
    return;
  }
  ++restarts_;
  if (!alone) return begin_attempt();
  phase_ = Phase::running;
  cause_.reset();
  for (int32_t rank : std::exchange(wave_, {})) {
    JobAction& leftovers = act(JobAction::Kind::kill_tree);
    leftovers.rank = rank;
    leftovers.id = ranks_[static_cast<size_t>(rank)].id;
    spawn(rank);
  }
}

void JobMachine::on_keeper_lost() {
  Cause cause;
  cause.kind = CauseKind::supervision_lost;
  cause.attempt = Attempt{std::max(attempt_, 0)};
  cause.reason = "the keeper process died; all ranks were killed";
  cause.exit_code = kExitSupervisionLost;
  for (RankState& state : ranks_) {
    if (state.life != Life::starting && state.life != Life::running) continue;
    state.life = Life::ended;
    state.killed = true;
    state.exit = {};
    state.exit.signal = SIGKILL;
  }
  const int code = cause_ ? cause_->exit_code : cause.exit_code;
  if (!cause_) note_cause(std::move(cause), std::nullopt);
  finish("failed: the keeper process died", code);
}

void JobMachine::finish(std::string verdict, int exit_code) {
  verdict_ = std::move(verdict);
  exit_code_ = exit_code;
  phase_ = Phase::over;
  act(JobAction::Kind::finish);
}

JobReport JobMachine::report() const {
  JobReport report;
  report.exit_code = exit_code_;
  report.first_cause = cause_;
  report.verdict = verdict_;
  report.stop_signal = stop_signal_;
  report.restarts = restarts_;
  report.causes = causes_;
  for (size_t i = 0; i < ranks_.size(); ++i) {
    const RankState& state = ranks_[i];
    RankReport& rank = report.ranks.emplace_back();
    rank.rank = Rank{static_cast<int32_t>(i)};
    rank.pid = state.pid;
    rank.started = state.pid != 0;
    rank.ended = state.life == Life::ended;
    rank.by_us = state.killed;
    rank.exit = state.exit;
    rank.restarts = state.restarts;
  }
  return report;
}

}  // namespace muster
