#include "sys/sim_spawner.h"

#include <signal.h>

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace muster {

Status SimSpawner::submit(const SpawnSpec& spec) {
  if (lost_) return Error(Code::peer_lost, "the keeper is gone");
  MUSTER_CHECK(!processes_.contains(spec.id), spec.id);
  Process process;
  process.fate = script_(spec);
  process.pid = next_pid_++;
  process.starts = clock_.now() + process.fate.start_delay;
  process.start_error = process.fate.start_error;
  process.exit = process.fate.exit;
  if (process.fate.lifetime) process.ends = process.starts + *process.fate.lifetime;
  processes_[spec.id] = process;
  return {};
}

Status SimSpawner::signal(uint64_t id, int signal_number, SignalScope) {
  if (lost_) return Error(Code::peer_lost, "the keeper is gone");
  const auto found = processes_.find(id);
  MUSTER_CHECK(found != processes_.end(), id);
  Process& process = found->second;
  if (process.over || process.start_error != 0 || process.starts > clock_.now()) return {};
  const bool kill = signal_number == SIGKILL;
  if (!kill && process.fate.ignores_signals) return {};
  const Nanos end = clock_.now() + (kill ? Nanos{0} : process.fate.signal_delay);
  if (process.ends && *process.ends <= end) return {};
  process.ends = end;
  process.exit = {};
  if (!kill && process.fate.on_signal)
    process.exit = *process.fate.on_signal;
  else
    process.exit.signal = signal_number;
  return {};
}

Status SimSpawner::kill_all() {
  if (lost_) return Error(Code::peer_lost, "the keeper is gone");
  for (auto& [id, process] : processes_) {
    if (process.over || process.start_error != 0) continue;
    process.starts = std::min(process.starts, clock_.now());
    if (process.ends && *process.ends <= clock_.now()) continue;
    process.ends = clock_.now();
    process.exit = {};
    process.exit.signal = SIGKILL;
  }
  sweeps_.push_back(clock_.now());
  return {};
}

std::vector<SpawnEvent> SimSpawner::take_events() {
  std::vector<SpawnEvent> events;
  const Nanos now = clock_.now();
  if (lost_) {
    if (!std::exchange(lost_told_, true)) {
      events.emplace_back();
      events.back().when = now;
    }
    return events;
  }
  for (auto& [id, process] : processes_) {
    if (process.over) continue;
    if (!process.start_told && process.starts <= now) {
      process.start_told = true;
      SpawnEvent& event = events.emplace_back();
      event.id = id;
      event.when = process.starts;
      event.kind = SpawnEvent::Kind::started;
      event.pid = process.pid;
      if (process.start_error != 0) {
        event.kind = SpawnEvent::Kind::start_failed;
        event.error = process.start_error;
        process.over = true;
        continue;
      }
    }
    if (process.start_told && process.ends && *process.ends <= now) {
      process.over = true;
      SpawnEvent& event = events.emplace_back();
      event.kind = SpawnEvent::Kind::exited;
      event.id = id;
      event.pid = process.pid;
      event.exit = process.exit;
      event.when = *process.ends;
    }
  }
  std::stable_sort(events.begin(), events.end(),
                   [](const SpawnEvent& a, const SpawnEvent& b) { return a.when < b.when; });
  for (Nanos when : std::exchange(sweeps_, {})) {
    SpawnEvent& event = events.emplace_back();
    event.kind = SpawnEvent::Kind::swept;
    event.when = when;
  }
  return events;
}

std::optional<Nanos> SimSpawner::next_event() const {
  std::optional<Nanos> next;
  const auto consider = [&](Nanos when) { next = next ? std::min(*next, when) : when; };
  if (lost_) {
    if (!lost_told_) consider(clock_.now());
    return next;
  }
  if (!sweeps_.empty()) consider(clock_.now());
  for (const auto& [id, process] : processes_) {
    if (process.over) continue;
    if (!process.start_told)
      consider(process.starts);
    else if (process.ends)
      consider(*process.ends);
  }
  return next;
}

size_t SimSpawner::live() const {
  return static_cast<size_t>(std::count_if(
      processes_.begin(), processes_.end(),
      [](const auto& entry) { return entry.second.start_told && !entry.second.over; }));
}

void SimSpawner::lose_keeper() {
  lost_ = true;
  for (auto& [id, process] : processes_) process.over = true;
}

}  // namespace muster
