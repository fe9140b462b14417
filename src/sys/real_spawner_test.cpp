// Real processes: what a Spawner promises, on every kill method this machine has.
#include "sys/real_spawner.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <fstream>

#include "base/clock.h"
#include "sys/process_tree.h"

namespace muster {
namespace {

using Kind = SpawnEvent::Kind;
constexpr Nanos kPatience = std::chrono::seconds{20};

std::unique_ptr<RealSpawner> start(std::string disabled = "") {
  Result<std::unique_ptr<RealSpawner>> spawner = RealSpawner::start({std::move(disabled)});
  EXPECT_TRUE(spawner.ok());
  return *std::move(spawner);
}

SpawnSpec shell(uint64_t id, std::string script) {
  SpawnSpec spec;
  spec.id = id;
  spec.argv = {"sh", "-c", std::move(script)};
  spec.environment = {"PATH=/usr/bin:/bin"};
  return spec;
}

// Collects events until one of `kind` for `id` is there; that one is the last.
std::vector<SpawnEvent> wait_for(Spawner& spawner, Kind kind, uint64_t id) {
  RealClock clock;
  const Nanos deadline = clock.now() + kPatience;
  std::vector<SpawnEvent> all;
  while (clock.now() < deadline) {
    pollfd wait{spawner.event_fd(), POLLIN, 0};
    poll(&wait, 1, 100);
    bool found = false;
    for (SpawnEvent& event : spawner.take_events()) {
      found = found || (event.kind == kind && event.id == id);
      all.push_back(std::move(event));
    }
    if (found) return all;
  }
  ADD_FAILURE() << "no event of kind " << static_cast<int>(kind) << " for id " << id;
  return all;
}

const SpawnEvent& find(const std::vector<SpawnEvent>& events, Kind kind, uint64_t id) {
  for (const SpawnEvent& event : events)
    if (event.kind == kind && event.id == id) return event;
  static const SpawnEvent none;
  ADD_FAILURE() << "no such event";
  return none;
}

struct Pipe {
  OwnedFd read, write;
  Pipe() {
    int fds[2];
    EXPECT_EQ(pipe2(fds, O_CLOEXEC), 0);
    read.reset(fds[0]);
    write.reset(fds[1]);
  }
  // Until all writers are gone.
  std::string rest() {
    write.reset();
    std::string text;
    char buffer[4096];
    ssize_t n;
    while ((n = ::read(read.get(), buffer, sizeof buffer)) > 0)
      text.append(buffer, static_cast<size_t>(n));
    return text;
  }
  // Until a newline.
  std::string line() {
    std::string text;
    char c;
    while (::read(read.get(), &c, 1) == 1 && c != '\n') text += c;
    return text;
  }
};

bool alive(pid_t pid) {
  std::ifstream in("/proc/" + std::to_string(pid) + "/stat");
  std::string stat;
  std::getline(in, stat);
  const size_t close = stat.rfind(')');
  return close != std::string::npos && stat[close + 2] != 'Z' && stat[close + 2] != 'X';
}

bool gone_soon(pid_t pid) {
  RealClock clock;
  for (const Nanos deadline = clock.now() + kPatience; clock.now() < deadline;
       clock.sleep_for(std::chrono::milliseconds{2}))
    if (!alive(pid)) return true;
  return false;
}

TEST(RealSpawner, ReportsExitCodesAndSignalsWithUsage) {
  const auto spawner = start();
  const struct {
    const char* script;
    int code, signal;
  } cases[] = {{"exit 0", 0, 0},
               {"exit 7", 7, 0},
               {"kill -SEGV $$", 0, SIGSEGV},
               {"kill -KILL $$", 0, SIGKILL}};
  uint64_t id = 0;
  for (const auto& c : cases) {
    SCOPED_TRACE(c.script);
    ASSERT_TRUE(spawner->submit(shell(++id, c.script)).ok());
    const auto events = wait_for(*spawner, Kind::exited, id);
    const SpawnEvent& started = find(events, Kind::started, id);
    const SpawnEvent& exited = find(events, Kind::exited, id);
    EXPECT_GT(started.pid, 0);
    EXPECT_EQ(started.pid, exited.pid);
    EXPECT_EQ(exited.exit.code, c.code);
    EXPECT_EQ(exited.exit.signal, c.signal);
    EXPECT_GT(exited.exit.max_rss_bytes, 0);
    EXPECT_GE(exited.when, started.when);
  }
}

TEST(RealSpawner, AProgramThatCannotRunIsAStartFailureThatNamesIt) {
  const auto spawner = start();
  const struct {
    std::vector<std::string> argv;
    std::string directory;
    int error;
    const char* text;
  } cases[] = {
      {{"no-such-program"}, "", ENOENT, "no-such-program"},
      {{"/no/such/file"}, "", ENOENT, "/no/such/file"},
      {{"/etc/passwd"}, "", EACCES, "/etc/passwd"},
      {{"/tmp"}, "", EACCES, "/tmp"},
      {{"/bin/true"}, "/no/such/folder", ENOENT, "/no/such/folder"},
  };
  uint64_t id = 0;
  for (const auto& c : cases) {
    SCOPED_TRACE(c.argv[0]);
    SpawnSpec spec = shell(++id, "");
    spec.argv = c.argv;
    spec.directory = c.directory;
    ASSERT_TRUE(spawner->submit(spec).ok());
    const auto events = wait_for(*spawner, Kind::start_failed, id);
    EXPECT_EQ(events.back().error, c.error);
    EXPECT_NE(events.back().text.find(c.text), std::string::npos) << events.back().text;
  }
  EXPECT_FALSE(spawner->submit(SpawnSpec{}).ok());
}

TEST(RealSpawner, ThePiecesOfASpecReachTheProcess) {
  const auto spawner = start();
  Pipe out, extra;
  SpawnSpec spec = shell(1,
                         "pwd; echo $A; echo to-extra >&4; ps -o sid= -p $$ 2>/dev/null; "
                         "cat; ls /proc/self/fd | tr '\\n' ' '");
  spec.environment.push_back("A=b c");
  spec.directory = "/usr";
  spec.stdout_fd = out.write.get();
  spec.extra_fds = {out.write.get(), extra.write.get()};
  ASSERT_TRUE(spawner->submit(spec).ok());
  wait_for(*spawner, Kind::exited, 1);
  const std::string text = out.rest();
  EXPECT_EQ(text.substr(0, 9), "/usr\nb c\n");
  EXPECT_EQ(extra.rest(), "to-extra\n");
  // Standard streams, 3, 4 and the folder that ls itself opened: nothing of ours leaks.
  EXPECT_NE(text.find("0 1 2 3 4 5 "), std::string::npos) << text;
  EXPECT_EQ(text.find(" 6 "), std::string::npos) << text;
}

TEST(RealSpawner, AScriptWithoutInterpreterLineRunsInTheShell) {
  const auto spawner = start();
  char path[] = "/tmp/muster-script-XXXXXX";
  const int fd = mkstemp(path);
  ASSERT_EQ(write(fd, "exit $1\n", 8), 8);
  fchmod(fd, 0755);
  close(fd);
  SpawnSpec spec = shell(1, "");
  spec.argv = {path, "9"};
  ASSERT_TRUE(spawner->submit(spec).ok());
  const auto events = wait_for(*spawner, Kind::exited, 1);
  EXPECT_EQ(events.back().exit.code, 9);
  unlink(path);
}

TEST(RealSpawner, EnvironmentsLargerThanAPacketArrive) {
  const auto spawner = start();
  Pipe out;
  SpawnSpec spec = shell(1, "echo ${#BIG3}");
  for (int i = 0; i < 6; ++i)
    spec.environment.push_back("BIG" + std::to_string(i) + "=" + std::string(100'000, 'x'));
  spec.stdout_fd = out.write.get();
  ASSERT_TRUE(spawner->submit(spec).ok());
  wait_for(*spawner, Kind::exited, 1);
  EXPECT_EQ(out.rest(), "100000\n");
}

TEST(RealSpawner, HundredsOfRequestsBeforeTheFirstAnswerIsTaken) {
  const auto spawner = start();
  for (uint64_t id = 1; id <= 300; ++id) {
    SpawnSpec spec = shell(id, "");
    spec.argv = {"true"};
    spec.environment.push_back("PAD=" + std::string(4000, 'x'));
    ASSERT_TRUE(spawner->submit(spec).ok());
  }
  size_t exited = 0;
  RealClock clock;
  for (const Nanos deadline = clock.now() + kPatience; exited < 300 && clock.now() < deadline;) {
    pollfd wait{spawner->event_fd(), POLLIN, 0};
    poll(&wait, 1, 100);
    for (const SpawnEvent& event : spawner->take_events()) exited += event.kind == Kind::exited;
  }
  EXPECT_EQ(exited, 300U);
}

// "" and every way to switch something off that has a fallback.
class EveryKillMethod : public testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(, EveryKillMethod,
                         testing::Values("", "cgroup", "clone3", "cgroup,children",
                                         "cgroup,clone3,pidfd,close_range"));

// A worker that starts a child and a setsid double-forked grandchild, prints their pids and waits.
constexpr const char* kFamily =
    "sleep 1000 & echo $!; setsid sh -c 'sleep 1000 & echo $!; sleep 1000' & wait";

TEST_P(EveryKillMethod, KillAllLeavesNoDescendant) {
  const auto spawner = start(GetParam());
  Pipe out;
  SpawnSpec spec = shell(1, kFamily);
  spec.stdout_fd = out.write.get();
  ASSERT_TRUE(spawner->submit(spec).ok());
  const pid_t child = std::atoi(out.line().c_str());
  const pid_t grandchild = std::atoi(out.line().c_str());
  ASSERT_TRUE(alive(child) && alive(grandchild));
  ASSERT_TRUE(spawner->kill_all().ok());
  const auto events = wait_for(*spawner, Kind::swept, 0);
  EXPECT_EQ(find(events, Kind::exited, 1).exit.signal, SIGKILL);
  EXPECT_EQ(events.back().text, "");
  EXPECT_FALSE(alive(child));
  EXPECT_FALSE(alive(grandchild));
}

TEST_P(EveryKillMethod, ProcessesStartedAfterAKillLive) {
  const auto spawner = start(GetParam());
  for (uint64_t id = 1; id <= 3; ++id) {
    ASSERT_TRUE(spawner->submit(shell(2 * id, "sleep 1000")).ok());
    ASSERT_TRUE(spawner->kill_all().ok());
    const auto killed = wait_for(*spawner, Kind::swept, 0);
    EXPECT_EQ(find(killed, Kind::exited, 2 * id).exit.signal, SIGKILL);
    ASSERT_TRUE(spawner->submit(shell(2 * id + 1, "sleep 0.01; exit 6")).ok());
    const auto events = wait_for(*spawner, Kind::exited, 2 * id + 1);
    EXPECT_EQ(events.back().exit.code, 6);
    EXPECT_EQ(events.back().exit.signal, 0);
  }
}

TEST_P(EveryKillMethod, TheDeathOfTheKeeperEndsEverything) {
  const auto spawner = start(GetParam());
  Pipe out;
  SpawnSpec spec = shell(1, kFamily);
  spec.stdout_fd = out.write.get();
  ASSERT_TRUE(spawner->submit(spec).ok());
  const pid_t child = std::atoi(out.line().c_str());
  const pid_t grandchild = std::atoi(out.line().c_str());
  wait_for(*spawner, Kind::started, 1);
  kill(spawner->keeper_pid(), SIGKILL);
  wait_for(*spawner, Kind::lost, 0);
  EXPECT_FALSE(alive(child));
  EXPECT_FALSE(alive(grandchild));
  EXPECT_FALSE(spawner->submit(shell(2, "true")).ok());
}

TEST_P(EveryKillMethod, TheDeathOfTheSupervisorEndsEverything) {
  Pipe out, keeper;
  const pid_t supervisor = fork();
  if (supervisor == 0) {
    const auto spawner = start(GetParam());
    SpawnSpec spec = shell(1, kFamily);
    spec.stdout_fd = out.write.get();
    if (!spawner->submit(spec).ok()) _exit(1);
    wait_for(*spawner, Kind::started, 1);
    const std::string pid = std::to_string(spawner->keeper_pid()) + "\n";
    if (write(keeper.write.get(), pid.data(), pid.size()) < 0) _exit(1);
    for (;;) pause();
  }
  const pid_t keeper_pid = std::atoi(keeper.line().c_str());
  const pid_t child = std::atoi(out.line().c_str());
  const pid_t grandchild = std::atoi(out.line().c_str());
  ASSERT_TRUE(alive(child) && alive(grandchild) && alive(keeper_pid));
  kill(supervisor, SIGKILL);
  EXPECT_EQ(waitpid(supervisor, nullptr, 0), supervisor);
  EXPECT_TRUE(gone_soon(child));
  EXPECT_TRUE(gone_soon(grandchild));
  EXPECT_TRUE(gone_soon(keeper_pid));
}

TEST_P(EveryKillMethod, AWorkerThatEndsTakesItsGroupAlong) {
  const auto spawner = start(GetParam());
  Pipe out;
  SpawnSpec spec = shell(1, "sleep 1000 & echo $!; exit 0");
  spec.stdout_fd = out.write.get();
  ASSERT_TRUE(spawner->submit(spec).ok());
  const pid_t child = std::atoi(out.line().c_str());
  const auto events = wait_for(*spawner, Kind::exited, 1);
  EXPECT_TRUE(events.back().exit.success());
  EXPECT_TRUE(gone_soon(child));
}

TEST_P(EveryKillMethod, KillTreeFindsOrphansOfOneWorkerByTheirMark) {
  const auto spawner = start(GetParam());
  Pipe out, other;
  for (uint64_t id : {1U, 2U}) {
    SpawnSpec spec = shell(id, "setsid sh -c 'sleep 1000 & echo $!'; wait");
    spec.environment.push_back("MUSTER_WORKER=" + std::to_string(id));
    spec.stdout_fd = id == 1 ? out.write.get() : other.write.get();
    ASSERT_TRUE(spawner->submit(spec).ok());
  }
  const pid_t mine = std::atoi(out.line().c_str());
  const pid_t theirs = std::atoi(other.line().c_str());
  wait_for(*spawner, Kind::exited, 1);
  ASSERT_TRUE(spawner->kill_tree(1).ok());
  EXPECT_TRUE(gone_soon(mine));
  EXPECT_TRUE(alive(theirs));
}

TEST_P(EveryKillMethod, SignalsReachTheLeaderOrTheGroup) {
  const auto spawner = start(GetParam());
  Pipe out;
  SpawnSpec spec = shell(1, "trap 'echo told; exit 5' TERM; echo up; while :; do sleep 0.01; done");
  spec.stdout_fd = out.write.get();
  ASSERT_TRUE(spawner->submit(spec).ok());
  EXPECT_EQ(out.line(), "up");
  ASSERT_TRUE(spawner->signal(1, SIGTERM, SignalScope::leader).ok());
  const auto events = wait_for(*spawner, Kind::exited, 1);
  EXPECT_EQ(events.back().exit.code, 5);
  EXPECT_EQ(out.line(), "told");
}

TEST(RealSpawner, ATerminationSignalToTheKeeperEndsTheJob) {
  const auto spawner = start();
  ASSERT_TRUE(spawner->submit(shell(1, "sleep 1000")).ok());
  const auto events = wait_for(*spawner, Kind::started, 1);
  kill(spawner->keeper_pid(), SIGTERM);
  wait_for(*spawner, Kind::lost, 0);
  EXPECT_FALSE(alive(events.back().pid));
}

TEST(ProcessCaps, SwitchedOffIsOff) {
  EXPECT_NE(probe_process_caps("clone3,children").to_string().find("no:clone3"), std::string::npos);
  EXPECT_NE(probe_process_caps("cgroup").to_string().find("no:cgroup"), std::string::npos);
}

// In a child of its own, whose user may start no process. Root may always, so it becomes another.
TEST(RealSpawner, AStartThatFailsTakesBackWhatItChanged) {
  std::fflush(nullptr);
  const pid_t child = fork();
  if (child == 0) {
    if (geteuid() == 0 && setuid(65534) != 0) _exit(3);
    prctl(PR_SET_CHILD_SUBREAPER, 0);
    const rlimit none{0, 0};
    setrlimit(RLIMIT_NPROC, &none);
    const auto spawner = RealSpawner::start({""});
    if (spawner.ok() || spawner.error().to_string().find("fork the keeper") == std::string::npos)
      _exit(1);
    int subreaper = -1;
    prctl(PR_GET_CHILD_SUBREAPER, &subreaper);
    _exit(subreaper == 0 ? 0 : 2);
  }
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

}  // namespace
}  // namespace muster
