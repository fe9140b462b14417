// Whole jobs on real processes.
#include "runtime/supervise/supervisor.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <sstream>

#include "net/socket.h"
#include "runtime/supervise/template_server.h"
#include "sys/real_spawner.h"
#include "trace/vocabulary.h"

namespace muster {
namespace {

std::string read_file(const std::string& path) {
  std::ifstream in(path);
  std::ostringstream out;
  out << in.rdbuf();
  return out.str();
}

class SupervisorTest : public testing::Test {
 protected:
  void SetUp() override {
    char pattern[] = "/tmp/muster-job-XXXXXX";
    folder_ = mkdtemp(pattern);
    screen_.reset(
        open((folder_ + "/screen").c_str(), O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0644));
  }
  void TearDown() override {
    const std::string command = "rm -rf " + folder_;
    EXPECT_EQ(std::system(command.c_str()), 0);
  }
  JobSpec shell(int ranks, const std::string& script) {
    JobSpec spec;
    spec.ranks = ranks;
    spec.command = {"sh", "-c", script};
    spec.environment = {{"PATH", "/usr/bin:/bin"}, {"D", folder_}};
    spec.logs.directory = folder_ + "/logs";
    spec.logs.out_fd = spec.logs.err_fd = screen_.get();
    return spec;
  }
  Result<JobReport> run(JobSpec spec, JobObserver* observer = nullptr) {
    MUSTER_TRY(auto spawner, RealSpawner::start({}));
    MUSTER_TRY(EventLog events, EventLog::open(folder_ + "/events.sqlite", clock_));
    Supervisor supervisor({clock_, random_, log_, *spawner, &events}, std::move(spec), observer);
    return supervisor.run();
  }
  std::string screen() const { return read_file(folder_ + "/screen"); }
  std::vector<Event> events(std::string_view kind) {
    auto log = EventLog::open_read_only(folder_ + "/events.sqlite");
    EventQuery query;
    query.kind = kind;
    return *log->query(query);
  }

  RealClock clock_;
  RealRandom random_;
  Log log_{clock_, STDERR_FILENO, LogLevel::error, Log::Format::text};
  std::string folder_;
  OwnedFd screen_;
};

TEST_F(SupervisorTest, RanksGetTorchrunsEnvironmentLogsAndLabels) {
  const auto report = run(shell(2, "echo $RANK of $WORLD_SIZE at $MASTER_ADDR; echo oops >&2"));
  ASSERT_TRUE(report.ok()) << report.error().to_string();
  EXPECT_EQ(report->exit_code, 0);
  EXPECT_NE(screen().find("[0] 0 of 2 at localhost\n"), std::string::npos) << screen();
  EXPECT_NE(screen().find("[1] 1 of 2 at localhost\n"), std::string::npos);
  EXPECT_EQ(read_file(folder_ + "/logs/attempt_0/1/stdout.log"), "1 of 2 at localhost\n");
  EXPECT_EQ(read_file(folder_ + "/logs/attempt_0/0/stderr.log"), "oops\n");
  EXPECT_EQ(events(event_kind::kRankExit).size(), 2U);
  EXPECT_EQ(events(event_kind::kAttemptPlaced).size(), 1U);
  EXPECT_EQ(events(event_kind::kJobEnd).at(0).payload["succeeded"], true);
}

TEST_F(SupervisorTest, TheFirstCauseIsReportedWithItsLastLines) {
  const auto report =
      run(shell(4, "if [ $RANK = 2 ]; then echo the reason >&2; exit 7; fi; sleep 1000"));
  ASSERT_TRUE(report.ok());
  EXPECT_EQ(report->exit_code, 7);
  ASSERT_TRUE(report->first_cause);
  EXPECT_EQ(report->first_cause->rank, Rank{2});
  EXPECT_EQ(report->first_cause->last_lines, std::vector<std::string>{"the reason"});
  EXPECT_EQ(events(event_kind::kAttemptVerdict).at(0).rank, 2);
  EXPECT_EQ(events("rank.kill").size(), 3U);
}

TEST_F(SupervisorTest, AGroupRestartHasAnEmptyStoreAndItsOwnLogs) {
  JobSpec spec = shell(2,
                       "echo $TORCHELASTIC_RESTART_COUNT; [ $TORCHELASTIC_RESTART_COUNT = 1 ] || "
                       "if [ $RANK = 1 ]; then kill -9 $$; else sleep 1000; fi");
  spec.restart.scope = RestartScope::group;
  spec.restart.max_restarts = 3;
  const auto report = run(spec);
  ASSERT_TRUE(report.ok());
  EXPECT_EQ(report->exit_code, 0);
  EXPECT_EQ(report->restarts, 1);
  EXPECT_EQ(report->causes.at(0).exit.signal, SIGKILL);
  EXPECT_EQ(read_file(folder_ + "/logs/attempt_1/0/stdout.log"), "1\n");
}

TEST_F(SupervisorTest, ARankRestartsAloneAndItsSetsidChildGoesWithIt) {
  JobSpec spec =
      shell(2,
            "if [ $RANK = 1 ] && [ ! -e $D/once ]; then touch $D/once; "
            "setsid sh -c 'echo $$ > $D/orphan; exec sleep 1000' & "
            "while [ ! -s $D/orphan ]; do sleep 0.01; done; exit 3; fi; "
            "while [ ! -e $D/once ] || kill -0 $(cat $D/orphan) 2>/dev/null; do sleep 0.01; done");
  spec.restart.scope = RestartScope::rank;
  spec.restart.max_restarts = 3;
  const auto report = run(spec);
  ASSERT_TRUE(report.ok());
  EXPECT_EQ(report->exit_code, 0);
  EXPECT_EQ(report->ranks[1].restarts, 1);
  EXPECT_EQ(report->ranks[0].restarts, 0);
}

TEST_F(SupervisorTest, BadRequestsAreErrorsThatNameTheValue) {
  EXPECT_EQ(run(shell(0, "true")).error().code(), Code::invalid_argument);
  JobSpec empty = shell(1, "true");
  empty.command.clear();
  EXPECT_EQ(run(empty).error().code(), Code::invalid_argument);

  auto taken = listen_socket(Endpoint::tcp("127.0.0.1", 0), 1);
  ASSERT_TRUE(taken.ok());
  JobSpec clash = shell(1, "true");
  clash.torchrun->master_addr = "127.0.0.1";
  clash.torchrun->master_port = local_endpoint(taken->get())->port;
  const auto report = run(clash);
  ASSERT_FALSE(report.ok());
  EXPECT_EQ(report.error().code(), Code::busy);
  EXPECT_NE(report.error().to_string().find(std::to_string(clash.torchrun->master_port)),
            std::string::npos);
}

TEST_F(SupervisorTest, AMissingProgramEndsTheJobWith127AndIsNotRetried) {
  JobSpec spec = shell(3, "");
  spec.command = {"no-such-program"};
  spec.restart.scope = RestartScope::group;
  spec.restart.max_restarts = 5;
  const auto report = run(spec);
  ASSERT_TRUE(report.ok());
  EXPECT_EQ(report->exit_code, kExitNotFound);
  EXPECT_EQ(report->restarts, 0);
  EXPECT_NE(report->first_cause->reason.find("no-such-program"), std::string::npos);
}

// Stops the job when all ranks have said that they are ready.
struct StopWhenReady : JobObserver {
  Supervisor* supervisor = nullptr;
  std::string ready;
  int stops = 1;
  void ticked(std::span<const WorkerView>) override {
    if (stops > 0 && access(ready.c_str(), F_OK) == 0) {
      --stops;
      supervisor->request_stop(SIGTERM);
    }
  }
};

TEST_F(SupervisorTest, AStopReachesRanksThatHandleItAndEndsThoseThatDoNot) {
  for (const bool handles : {true, false}) {
    SCOPED_TRACE(handles);
    JobSpec spec = shell(1, std::string("trap '") + (handles ? "exit 0" : "") +
                                "' TERM; touch $D/ready; while :; do sleep 0.01; done");
    spec.tick = std::chrono::milliseconds{5};
    spec.trace.emplace();
    spec.trace->rings = 1;
    spec.trace->slots = 1 << 10;
    auto spawner = RealSpawner::start({});
    StopWhenReady observer;
    observer.ready = folder_ + "/ready";
    Supervisor supervisor({clock_, random_, log_, **spawner}, spec, &observer);
    observer.supervisor = &supervisor;
    const auto report = supervisor.run();
    ASSERT_TRUE(report.ok());
    EXPECT_EQ(report->exit_code, handles ? 0 : 128 + SIGTERM);
    unlink(observer.ready.c_str());
  }
}

TEST_F(SupervisorTest, EachRankGetsATraceRegionOfItsOwn) {
  struct Watch : JobObserver {
    std::vector<std::pair<int32_t, int32_t>> seen;  // rank and attempt as the region says
    void worker_started(const WorkerView& view) override {
      seen.emplace_back(view.trace->rank(), view.trace->attempt());
    }
  } watch;
  JobSpec spec = shell(2, "[ $MUSTER_TRACE_FD = 3 ] && [ -e /proc/self/fd/3 ]");
  spec.trace.emplace();
  spec.trace->rings = 1;
  spec.trace->slots = 1 << 10;
  const auto report = run(spec, &watch);
  ASSERT_TRUE(report.ok()) << report.error().to_string();
  EXPECT_EQ(report->exit_code, 0);
  std::sort(watch.seen.begin(), watch.seen.end());
  EXPECT_EQ(watch.seen, (std::vector<std::pair<int32_t, int32_t>>{{0, 0}, {1, 0}}));
}

TEST_F(SupervisorTest, ASilentRankIsAHangAndRestarts) {
  // The second attempt ends at once, long before its own silence would count.
  JobSpec spec = shell(2, "[ $TORCHELASTIC_RESTART_COUNT = 1 ] || sleep 1000");
  spec.restart.scope = RestartScope::group;
  spec.restart.max_restarts = 1;
  spec.trace.emplace();
  spec.trace->rings = 1;
  spec.trace->slots = 1 << 10;
  spec.tick = std::chrono::milliseconds{5};
  spec.hang.enabled = true;
  spec.hang.start_limit = std::chrono::milliseconds{1000};
  spec.hang.confirm = std::chrono::milliseconds{500};
  const auto report = run(spec);
  ASSERT_TRUE(report.ok());
  ASSERT_EQ(report->causes.size(), 1U) << report->to_json();
  EXPECT_EQ(report->causes[0].kind, CauseKind::hang);
  EXPECT_EQ(report->restarts, 1);
  EXPECT_EQ(report->exit_code, 0) << report->to_json();
}

TEST_F(SupervisorTest, AStoppedRankIsTheOneThatHangs) {
  struct Stop : JobObserver {
    void worker_started(const WorkerView& view) override {
      view.trace->progress().worker.waiting.store(1);  // all in one collective
      if (view.rank.value == 1 && view.attempt.value == 0) kill(view.pid, SIGSTOP);
    }
  } stop;
  JobSpec spec = shell(3, "[ $TORCHELASTIC_RESTART_COUNT = 1 ] || sleep 1000");
  spec.restart.scope = RestartScope::group;
  spec.restart.max_restarts = 1;
  spec.trace.emplace();
  spec.trace->rings = 1;
  spec.trace->slots = 1 << 10;
  spec.tick = std::chrono::milliseconds{5};
  spec.hang.enabled = true;
  spec.hang.start_limit = std::chrono::milliseconds{1000};
  spec.hang.confirm = std::chrono::milliseconds{500};
  const auto report = run(spec, &stop);
  ASSERT_TRUE(report.ok());
  ASSERT_EQ(report->causes.size(), 1U) << report->to_json();
  EXPECT_EQ(report->causes[0].culprits, std::vector<int32_t>{1});
  EXPECT_NE(report->causes[0].reason.find("is stopped (SIGSTOP"), std::string::npos)
      << report->causes[0].reason;
}

// --- templates

JobSpec from_template(JobSpec spec, const std::string& what) {
  spec.template_command = {MUSTER_TEMPLATE_PROBE};
  spec.command = {"rank-program", what};
  spec.directory = "/usr";
  return spec;
}

TEST_F(SupervisorTest, RanksForkedFromATemplateAreRanksLikeAnyOther) {
  const auto failed = run(from_template(shell(3, ""), "code"));
  ASSERT_TRUE(failed.ok());
  ASSERT_TRUE(failed->first_cause);
  EXPECT_EQ(failed->exit_code, 40 + failed->first_cause->rank.value);

  const auto report = run(from_template(shell(3, ""), "plain"));
  ASSERT_TRUE(report.ok());
  EXPECT_EQ(report->exit_code, 0);
  const std::string out = read_file(folder_ + "/logs/attempt_0/0/stdout.log");
  EXPECT_NE(out.find("rank 0 restart 0"), std::string::npos) << out << screen();
  EXPECT_NE(out.find("leader 1 in /usr with plain"), std::string::npos) << out;
}

TEST_F(SupervisorTest, AForkedRankThatDiesRestartsFromTheSameTemplate) {
  JobSpec spec = from_template(shell(2, ""), "fail-once");
  spec.restart.scope = RestartScope::group;
  spec.restart.max_restarts = 3;
  const auto report = run(spec);
  ASSERT_TRUE(report.ok());
  EXPECT_EQ(report->exit_code, 0) << report->to_json();
  EXPECT_EQ(report->restarts, 1);
  EXPECT_EQ(report->causes.at(0).exit.signal, SIGABRT);
  EXPECT_NE(read_file(folder_ + "/logs/attempt_1/1/stdout.log").find("rank 1 restart 1"),
            std::string::npos);
}

TEST_F(SupervisorTest, ADeadTemplateIsReplacedBeforeTheNextAttempt) {
  // Rank 1 finds the template, a child of the keeper like itself, and takes it along.
  JobSpec spec = from_template(shell(2, ""), "kill-template-once");
  spec.restart.scope = RestartScope::group;
  spec.restart.max_restarts = 1;
  const auto report = run(spec);
  ASSERT_TRUE(report.ok());
  EXPECT_EQ(report->exit_code, 0) << report->to_json();
  EXPECT_EQ(report->restarts, 1);
}

TEST_F(SupervisorTest, ATemplateWithThreadsIsRefusedByName) {
  JobSpec spec = from_template(shell(1, ""), "code");
  spec.template_command.push_back("with-thread");
  const auto report = run(spec);
  ASSERT_TRUE(report.ok());
  EXPECT_EQ(report->first_cause->kind, CauseKind::start_failed);
  EXPECT_NE(report->first_cause->reason.find("other threads"), std::string::npos)
      << report->first_cause->reason;
}

TEST_F(SupervisorTest, ATemplateThatHangsWhileItWarmsUpEndsTheJob) {
  JobSpec spec = from_template(shell(2, ""), "plain");
  spec.template_command.push_back("hang");
  spec.template_limit = std::chrono::milliseconds{300};
  spec.restart.scope = RestartScope::group;
  spec.restart.max_restarts = 3;
  const auto report = run(spec);
  ASSERT_TRUE(report.ok());
  EXPECT_EQ(report->exit_code, kExitHang);
  EXPECT_EQ(report->restarts, 0);
  EXPECT_EQ(report->first_cause->kind, CauseKind::start_failed);
  EXPECT_NE(report->first_cause->reason.find("was not warm after 300 ms"), std::string::npos)
      << report->first_cause->reason;
}

TEST_F(SupervisorTest, AStopDoesNotWaitForATemplateThatWarmsUp) {
  JobSpec spec = from_template(shell(2, ""), "plain");
  spec.template_command.push_back("hang");
  spec.stop.stop_grace = std::chrono::minutes{30};
  spec.tick = std::chrono::milliseconds{5};
  spec.trace.emplace();
  spec.trace->rings = 1;
  spec.trace->slots = 1 << 10;
  auto spawner = RealSpawner::start({});
  StopWhenReady observer;
  observer.ready = "/";
  Supervisor supervisor({clock_, random_, log_, **spawner}, spec, &observer);
  observer.supervisor = &supervisor;
  const auto report = supervisor.run();
  ASSERT_TRUE(report.ok());
  EXPECT_EQ(report->exit_code, 128 + SIGTERM);
  EXPECT_EQ(report->verdict, "stopped by SIGTERM");
}

TEST_F(SupervisorTest, ATemplateThatCannotStartIsTheCause) {
  JobSpec spec = from_template(shell(2, ""), "code");
  spec.template_command = {"/bin/false"};
  const auto report = run(spec);
  ASSERT_TRUE(report.ok());
  EXPECT_EQ(report->first_cause->kind, CauseKind::start_failed);
  EXPECT_NE(report->first_cause->reason.find("template"), std::string::npos);
}

}  // namespace
}  // namespace muster
