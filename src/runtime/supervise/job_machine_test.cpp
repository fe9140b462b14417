// The decisions of a job: tables of stories, then thousands of random jobs on simulated processes.
#include "runtime/supervise/job_machine.h"

#include <gtest/gtest.h>

#include <set>

#include "base/philox.h"
#include "sys/sim_spawner.h"

namespace muster {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

ExitInfo exit_code(int code) {
  ExitInfo exit;
  exit.code = code;
  return exit;
}
ExitInfo by_signal(int number) {
  ExitInfo exit;
  exit.signal = number;
  return exit;
}

// Executes a machine's actions on SimSpawner as the supervisor does on real processes, and checks
// at every step what must always hold.
class SimJob {
 public:
  using Script = std::function<SimSpawner::Fate(int32_t rank, int attempt, int start)>;

  SimJob(JobRules rules, Script script)
      : machine_(rules),
        ranks_(rules.ranks),
        script_(std::move(script)),
        spawner_(clock_, [this](const SpawnSpec& spec) { return fate(spec); }) {}

  JobReport run() {
    feed({JobEvent::Kind::start});
    for (int steps = 0; !over_; ++steps) {
      if (steps > 100'000) {
        ADD_FAILURE() << "the job does not end";
        break;
      }
      std::optional<Nanos> next = spawner_.next_event();
      for (const auto& [when, event] : planned_) {
        if (!next || when < *next) next = when;
        break;
      }
      if (wake_ && (!next || *wake_ < *next)) next = *wake_;
      if (!next) {
        ADD_FAILURE() << "nothing will ever happen again";
        break;
      }
      clock_.sleep_until(*next);
      look();
    }
    EXPECT_EQ(spawner_.live(), 0U);
    return machine_.report();
  }

  void at(Nanos when, const JobEvent& event) { planned_.emplace(when, event); }
  void lose_keeper_at(Nanos when) { lose_at_ = when, at(when, {JobEvent::Kind::time}); }
  std::function<bool(const JobAction&)> allow = [](const JobAction&) { return true; };
  std::function<std::optional<int64_t>(int attempt)> progress = [](int) { return std::nullopt; };
  Nanos now() const { return clock_.now(); }
  const std::vector<std::string>& journal() const { return journal_; }
  int attempts() const { return attempts_; }

 private:
  SimSpawner::Fate fate(const SpawnSpec& spec) {
    const auto& [rank, attempt, start] = starts_.at(spec.id);
    return script_(rank, attempt, start);
  }

  void feed(const JobEvent& event) {
    std::vector<JobEvent> queue{event};
    for (size_t i = 0; i < queue.size(); ++i) {
      queue[i].now = clock_.now();
      for (const JobAction& action : machine_.apply(queue[i])) execute(action, queue);
    }
  }

  void look() {
    if (lose_at_ && clock_.now() >= *lose_at_) spawner_.lose_keeper(), lose_at_.reset();
    for (const SpawnEvent& event : spawner_.take_events()) {
      JobEvent told{JobEvent::Kind::started};
      told.id = event.id;
      told.pid = event.pid;
      told.exit = event.exit;
      told.error = event.error;
      told.text = event.error != 0 ? "no" : "";
      switch (event.kind) {
        case SpawnEvent::Kind::started:
          break;
        case SpawnEvent::Kind::start_failed:
          told.kind = JobEvent::Kind::start_failed;
          failed_.insert(event.id);
          break;
        case SpawnEvent::Kind::exited:
          told.kind = JobEvent::Kind::exited;
          break;
        case SpawnEvent::Kind::swept:
          told.kind = JobEvent::Kind::swept;
          break;
        case SpawnEvent::Kind::lost:
          told.kind = JobEvent::Kind::keeper_lost;
          break;
      }
      if (told.kind == JobEvent::Kind::exited) {
        EXPECT_TRUE(ended_.insert(event.id).second);
      }
      feed(told);
    }
    if (wave_open_) close_wave();
    while (!planned_.empty() && planned_.begin()->first <= clock_.now()) {
      const JobEvent event = planned_.begin()->second;
      planned_.erase(planned_.begin());
      feed(event);
    }
    if (wake_ && clock_.now() >= *wake_) {
      wake_.reset();
      feed({JobEvent::Kind::time});
    }
  }

  void close_wave() {
    wave_open_ = false;
    JobEvent closed{JobEvent::Kind::wave_closed};
    for (int32_t rank : machine_.wave()) {
      const auto& state = machine_.rank(rank);
      ExitEvidence evidence;
      evidence.rank = rank;
      evidence.exit = state.exit;
      evidence.start_error = state.start_error;
      evidence.start_errno = state.start_errno;
      evidence.at = state.ended_at;
      closed.wave.push_back(evidence);
    }
    closed.progress = progress(machine_.attempt());
    feed(closed);
  }

  void execute(const JobAction& action, std::vector<JobEvent>& queue) {
    EXPECT_FALSE(over_);
    using Kind = JobAction::Kind;
    switch (action.kind) {
      case Kind::begin_attempt:
        // PROC-1, PROC-2: nothing of the earlier attempt is alive.
        EXPECT_EQ(spawner_.live(), 0U);
        ++attempts_;
        break;
      case Kind::spawn: {
        for (const auto& [id, other] : starts_) {
          const bool over = ended_.contains(id) || failed_.contains(id);
          EXPECT_TRUE(over || std::get<0>(other) != action.rank);
        }
        const int start = ++start_count_[action.rank];
        starts_[action.id] = {action.rank, action.attempt, start - 1};
        SpawnSpec spec;
        spec.id = action.id;
        EXPECT_TRUE(spawner_.submit(spec).ok());
        break;
      }
      case Kind::signal:
        EXPECT_TRUE(machine_.rank(action.rank).killed);
        journal_.push_back("signal " + std::to_string(action.signal_number) + " to rank " +
                           std::to_string(action.rank));
        EXPECT_TRUE(spawner_.signal(action.id, action.signal_number, SignalScope::group).ok());
        break;
      case Kind::kill_tree:
        EXPECT_TRUE(spawner_.kill_tree(action.id).ok());
        break;
      case Kind::kill_all:
        journal_.push_back("kill all");
        EXPECT_TRUE(spawner_.kill_all().ok());
        break;
      case Kind::close_wave:
        wave_open_ = true;
        break;
      case Kind::found_cause:
        causes_.push_back(action.cause);
        break;
      case Kind::ask_restart: {
        JobEvent answer{JobEvent::Kind::decision};
        answer.allow = allow(action);
        answer.text = answer.allow ? "" : "refused";
        queue.push_back(answer);
        break;
      }
      case Kind::wake_at:
        wake_ = action.when;
        break;
      case Kind::finish:
        over_ = true;
        break;
    }
  }

  SimClock clock_;
  JobMachine machine_;
  int ranks_;
  Script script_;
  SimSpawner spawner_;
  std::map<uint64_t, std::tuple<int32_t, int, int>> starts_;
  std::map<int32_t, int> start_count_;
  std::set<uint64_t> ended_, failed_;
  std::multimap<Nanos, JobEvent> planned_;
  std::optional<Nanos> wake_, lose_at_;
  std::vector<std::string> journal_;
  std::vector<Cause> causes_;
  bool wave_open_ = false, over_ = false;
  int attempts_ = 0;
};

SimSpawner::Fate lives(Nanos time, ExitInfo exit) {
  SimSpawner::Fate fate;
  fate.lifetime = time;
  fate.exit = exit;
  return fate;
}
SimSpawner::Fate lives_on() {
  return {};
}

JobRules rules(int ranks, RestartScope scope = RestartScope::never, int restarts = 0) {
  JobRules rules;
  rules.ranks = ranks;
  rules.restart.scope = scope;
  rules.restart.max_restarts = restarts;
  return rules;
}

TEST(JobMachine, AllRanksEndWellAtDifferentTimes) {
  SimJob job(rules(3), [](int32_t rank, int, int) { return lives(seconds{rank + 1}, {}); });
  const JobReport report = job.run();
  EXPECT_EQ(report.exit_code, 0);
  EXPECT_EQ(report.verdict, "done");
  EXPECT_FALSE(report.first_cause);
  EXPECT_EQ(job.now(), seconds{3});
  EXPECT_EQ(job.journal(), std::vector<std::string>{"kill all"});  // orphans of ranks
}

TEST(JobMachine, OneRankFailsAndTheOthersAreStopped) {
  SimJob job(rules(3), [](int32_t rank, int, int) {
    return rank == 1 ? lives(seconds{1}, exit_code(7)) : lives_on();
  });
  const JobReport report = job.run();
  EXPECT_EQ(report.exit_code, 7);
  ASSERT_TRUE(report.first_cause);
  EXPECT_EQ(report.first_cause->rank, Rank{1});
  EXPECT_EQ(report.first_cause->collateral, 0);
  EXPECT_TRUE(report.ranks[0].by_us && report.ranks[2].by_us);
  EXPECT_FALSE(report.ranks[1].by_us);
}

TEST(JobMachine, RanksThatIgnoreTheSignalAreKilledAfterTheGrace) {
  SimJob job(rules(2), [](int32_t rank, int, int) {
    SimSpawner::Fate fate = rank == 1 ? lives(seconds{1}, exit_code(7)) : lives_on();
    fate.ignores_signals = true;
    return fate;
  });
  const JobReport report = job.run();
  EXPECT_EQ(job.now(), seconds{1} + milliseconds{50});
  EXPECT_EQ(report.ranks[0].exit.signal, SIGKILL);
}

TEST(JobMachine, WithoutGraceTheRestIsKilledAtOnce) {
  JobRules r = rules(4);
  r.stop.fail_signal = SIGKILL;
  SimJob job(r, [](int32_t rank, int, int) {
    return rank == 3 ? lives(seconds{1}, by_signal(SIGSEGV)) : lives_on();
  });
  EXPECT_EQ(job.run().exit_code, 128 + SIGSEGV);
  EXPECT_EQ(job.now(), seconds{1});
}

TEST(JobMachine, AGroupRestartsAsAWholeAndThenSucceeds) {
  SimJob job(rules(2, RestartScope::group, 2), [](int32_t rank, int attempt, int) {
    if (attempt == 0 && rank == 1) return lives(seconds{1}, by_signal(SIGKILL));
    return lives(seconds{5}, {});
  });
  const JobReport report = job.run();
  EXPECT_EQ(report.exit_code, 0);
  EXPECT_EQ(report.restarts, 1);
  EXPECT_EQ(report.causes.size(), 1U);
  EXPECT_EQ(report.ranks[0].restarts, 1);
  EXPECT_EQ(job.attempts(), 2);
}

TEST(JobMachine, ARankRestartsAloneWhileTheOthersGoOn) {
  SimJob job(rules(3, RestartScope::rank, 2), [](int32_t rank, int, int start) {
    if (rank == 1 && start == 0) return lives(seconds{1}, exit_code(3));
    return lives(seconds{5}, {});
  });
  const JobReport report = job.run();
  EXPECT_EQ(report.exit_code, 0);
  EXPECT_EQ(report.ranks[1].restarts, 1);
  EXPECT_EQ(report.ranks[0].restarts, 0);
  EXPECT_EQ(job.attempts(), 1);
  EXPECT_EQ(job.now(), seconds{6});
}

TEST(JobMachine, WhenRestartsAreRefused) {
  const struct {
    const char* name;
    std::function<void(RestartPolicy&)> policy;
    ExitInfo exit;
    int start_error;
    std::optional<int64_t> step;
    int want_restarts;
    const char* want_verdict;
  } cases[] = {
      {"used up",
       [](RestartPolicy& p) { p.max_restarts = 2; },
       exit_code(1),
       0,
       {},
       2,
       "failed: 2 of 2 restarts used"},
      {"exit code 93",
       [](RestartPolicy&) {},
       exit_code(93),
       0,
       {},
       0,
       "failed: exit code 93 asks for no restart"},
      {"program not found",
       [](RestartPolicy&) {},
       {},
       ENOENT,
       {},
       0,
       "failed: the program cannot be run, so starting it again would not help"},
      {"template hangs",
       [](RestartPolicy&) {},
       {},
       ETIMEDOUT,
       {},
       0,
       "failed: a template that hangs would hang again"},
      {"no progress", [](RestartPolicy& p) { p.attempts_without_progress = 3; }, exit_code(1), 0, 0,
       2, "failed: restart loop without progress: 3 attempts in a row did not pass step 0"},
  };
  for (RestartScope scope : {RestartScope::group, RestartScope::rank}) {
    for (const auto& c : cases) {
      SCOPED_TRACE(c.name);
      JobRules r = rules(2, scope, 100);
      c.policy(r.restart);
      SimJob job(r, [&](int32_t rank, int, int) {
        SimSpawner::Fate fate = rank == 0 ? lives(seconds{1}, c.exit) : lives_on();
        if (rank == 0) fate.start_error = c.start_error;
        return fate;
      });
      job.progress = [&](int) { return c.step; };
      const JobReport report = job.run();
      EXPECT_EQ(report.restarts, c.want_restarts);
      EXPECT_EQ(report.verdict, c.want_verdict);
      EXPECT_NE(report.exit_code, 0);
    }
  }
}

TEST(JobMachine, ProgressResetsTheLoopCount) {
  SimJob job(rules(1, RestartScope::group, 100),
             [](int32_t, int, int) { return lives(seconds{1}, exit_code(1)); });
  job.progress = [](int attempt) {
    return std::optional<int64_t>(attempt < 10 ? attempt + 1 : 10);
  };
  EXPECT_EQ(job.run().restarts, 12);  // ten that pass the best step, three that do not
}

TEST(JobMachine, TheOwnerMayRefuseARestart) {
  SimJob job(rules(2, RestartScope::group, 9),
             [](int32_t, int, int) { return lives(seconds{1}, exit_code(4)); });
  job.allow = [](const JobAction&) { return false; };
  const JobReport report = job.run();
  EXPECT_EQ(report.exit_code, 4);
  EXPECT_EQ(report.verdict, "failed: refused");
}

TEST(JobMachine, StopSignals) {
  const struct {
    const char* name;
    bool ignore;
    std::optional<ExitInfo> on_signal;
    int stops;
    int want_code;
    Nanos want_end;
  } cases[] = {
      {"ranks die by it", false, {}, 1, 128 + SIGTERM, seconds{10}},
      {"ranks end well because of it", false, exit_code(0), 1, 0, seconds{10}},
      {"ranks end badly because of it", false, exit_code(3), 1, 128 + SIGTERM, seconds{10}},
      {"ranks crash meanwhile", false, by_signal(SIGSEGV), 1, 128 + SIGSEGV, seconds{10}},
      {"ranks could not save", false, exit_code(93), 1, 93, seconds{10}},
      {"ranks ignore it", true, {}, 1, 128 + SIGTERM, seconds{10} + milliseconds{500}},
      {"a second one kills at once", true, {}, 2, 128 + SIGTERM, seconds{10} + milliseconds{100}},
  };
  for (const auto& c : cases) {
    SCOPED_TRACE(c.name);
    SimJob job(rules(3, RestartScope::group, 5), [&](int32_t, int, int) {
      SimSpawner::Fate fate;
      fate.ignores_signals = c.ignore;
      fate.on_signal = c.on_signal;
      return fate;
    });
    for (int i = 0; i < c.stops; ++i) {
      JobEvent stop{JobEvent::Kind::stop};
      stop.signal_number = SIGTERM;
      job.at(seconds{10} + milliseconds{100} * i, stop);
    }
    const JobReport report = job.run();
    EXPECT_EQ(report.exit_code, c.want_code);
    EXPECT_EQ(report.restarts, 0);
    EXPECT_EQ(job.now(), c.want_end);
  }
}

TEST(JobMachine, AStopDuringAFailureKeepsTheCause) {
  SimJob job(rules(2, RestartScope::group, 5), [](int32_t rank, int, int) {
    SimSpawner::Fate fate = rank == 0 ? lives(seconds{1}, exit_code(9)) : lives_on();
    fate.ignores_signals = true;
    return fate;
  });
  JobEvent stop{JobEvent::Kind::stop};
  stop.signal_number = SIGINT;
  job.at(seconds{1} + milliseconds{10}, stop);
  const JobReport report = job.run();
  EXPECT_EQ(report.exit_code, 9);
  EXPECT_EQ(report.restarts, 0);
}

TEST(JobMachine, AHangIsACauseAndRestarts) {
  SimJob job(rules(2, RestartScope::group, 1), [](int32_t, int attempt, int) {
    return attempt == 0 ? lives_on() : lives(seconds{1}, {});
  });
  JobEvent hang{JobEvent::Kind::hang};
  hang.ranks = {1};
  hang.text = "no progress";
  job.at(seconds{20}, hang);
  const JobReport report = job.run();
  EXPECT_EQ(report.exit_code, 0);
  EXPECT_EQ(report.restarts, 1);
  ASSERT_EQ(report.causes.size(), 1U);
  EXPECT_EQ(report.causes[0].kind, CauseKind::hang);
  EXPECT_EQ(report.causes[0].exit_code, kExitHang);
}

TEST(JobMachine, ARankThatHangsWhileTheJobStopsIsNotWaitedFor) {
  JobRules r = rules(2, RestartScope::group, 1);
  r.stop.stop_grace = seconds{300};
  SimJob job(r, [](int32_t, int, int) {
    SimSpawner::Fate fate;
    fate.ignores_signals = true;
    return fate;
  });
  JobEvent stop{JobEvent::Kind::stop};
  stop.signal_number = SIGINT;
  job.at(seconds{10}, stop);
  JobEvent hang{JobEvent::Kind::hang};
  hang.ranks = {1};
  job.at(seconds{20}, hang);
  const JobReport report = job.run();
  EXPECT_EQ(report.exit_code, 128 + SIGINT);
  EXPECT_EQ(report.verdict, "stopped by SIGINT");
  EXPECT_EQ(job.now(), seconds{20});
}

TEST(JobMachine, TheDeathOfTheKeeperEndsTheJob) {
  SimJob job(rules(2, RestartScope::group, 5), [](int32_t, int, int) { return lives_on(); });
  job.lose_keeper_at(seconds{3});
  const JobReport report = job.run();
  EXPECT_EQ(report.exit_code, kExitSupervisionLost);
  EXPECT_EQ(report.first_cause->kind, CauseKind::supervision_lost);
}

TEST(JobMachine, AnyRandomJobEndsWithNothingAliveAndOneCausePerFailedAttempt) {
  for (uint64_t seed = 0; seed < 2000; ++seed) {
    SCOPED_TRACE(seed);
    uint64_t drawn = 0;
    const auto draw = [&](uint64_t n) { return philox_u64(seed, drawn++, 7) % n; };
    JobRules r = rules(static_cast<int>(1 + draw(5)), static_cast<RestartScope>(draw(3)),
                       static_cast<int>(draw(4)));
    if (draw(2) == 0) r.stop.fail_signal = SIGKILL;
    SimJob job(r, [&](int32_t, int, int) {
      SimSpawner::Fate fate;
      fate.start_delay = milliseconds{draw(5)};
      if (draw(20) == 0) fate.start_error = draw(2) == 0 ? EAGAIN : ENOENT;
      fate.lifetime = milliseconds{draw(50)};
      if (draw(3) == 0)
        fate.exit = draw(2) == 0 ? exit_code(1 + static_cast<int>(draw(5))) : by_signal(SIGABRT);
      fate.ignores_signals = draw(4) == 0;
      fate.signal_delay = milliseconds{draw(100)};
      return fate;
    });
    if (draw(3) == 0) {
      JobEvent stop{JobEvent::Kind::stop};
      stop.signal_number = SIGTERM;
      for (uint64_t i = draw(3); i > 0; --i) job.at(milliseconds{draw(60)}, stop);
    }
    if (draw(8) == 0) job.lose_keeper_at(milliseconds{draw(60)});
    const JobReport report = job.run();
    EXPECT_LE(report.restarts, r.restart.max_restarts);
    if (report.first_cause) {
      EXPECT_EQ(report.exit_code, report.first_cause->exit_code);
    }
    if (report.causes.empty() && report.exit_code != 0) {
      EXPECT_EQ(report.exit_code, 143);
    }
  }
}

}  // namespace
}  // namespace muster
