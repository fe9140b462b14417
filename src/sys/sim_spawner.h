// SimSpawner: processes that exist only in a table, on a SimClock. Each gets its fate from a
// function of its SpawnSpec; signals change it. It counts what must never happen: a signal to an id
// that was never submitted, an id used twice.
#pragma once

#include <signal.h>

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "sys/spawner.h"

namespace muster {

class SimSpawner final : public Spawner {
 public:
  // What a process will do if nobody interferes.
  struct Fate {
    Nanos start_delay{0};
    int start_error = 0;                // errno; the start fails
    std::optional<Nanos> lifetime;      // from its start; none = runs until signalled
    ExitInfo exit;                      // at the end of its lifetime
    bool ignores_signals = false;       // all but SIGKILL
    Nanos signal_delay{0};              // from a signal to its end
    std::optional<ExitInfo> on_signal;  // how it ends on a signal other than SIGKILL
  };
  using Script = std::function<Fate(const SpawnSpec&)>;

  // `clock` must outlive the spawner.
  SimSpawner(SimClock& clock, Script script) : clock_(clock), script_(std::move(script)) {}

  Status submit(const SpawnSpec& spec) override;
  Status start_template(const SpawnSpec& spec) override { return submit(spec); }
  Status signal(uint64_t id, int signal_number, SignalScope scope) override;
  Status kill_tree(uint64_t id) override { return signal(id, SIGKILL, SignalScope::group); }
  Status kill_all() override;
  int event_fd() const override { return -1; }
  // Events due at clock.now() or before, oldest first.
  std::vector<SpawnEvent> take_events() override;
  std::string kill_method() const override { return "sim"; }

  // When the next event is due; the simulation advances the clock to it.
  std::optional<Nanos> next_event() const;
  size_t live() const;
  // The keeper dies now: everything ends without exited events; `lost` is the last event.
  void lose_keeper();

 private:
  struct Process {
    pid_t pid = 0;
    Nanos starts{0};
    int start_error = 0;
    std::optional<Nanos> ends;
    ExitInfo exit;
    Fate fate;
    bool start_told = false;
    bool over = false;
  };
  SimClock& clock_;
  Script script_;
  std::map<uint64_t, Process> processes_;
  std::vector<Nanos> sweeps_;  // answers due
  bool lost_ = false;
  bool lost_told_ = false;
  pid_t next_pid_ = 1000;
};

}  // namespace muster
