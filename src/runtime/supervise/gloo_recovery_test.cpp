// An unmodified torch.distributed script whose ranks are killed: it comes back every time, because
// every attempt finds an empty store. Needs a Python with torch; slow, since torch takes seconds to
// import.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>

#include "runtime/supervise/supervisor.h"
#include "sys/real_spawner.h"

namespace muster {
namespace {

std::string python() {
  const char* set = std::getenv("MUSTER_PYTHON");
  return set != nullptr ? set : std::string(MUSTER_SOURCE_DIR) + "/.venv/bin/python";
}

bool has_torch() {
  const std::string command = python() +
                              " -c 'import importlib.util as u, sys; "
                              "sys.exit(u.find_spec(\"torch\") is None)' 2>/dev/null";
  return access(python().c_str(), X_OK) == 0 && std::system(command.c_str()) == 0;
}

TEST(GlooRecovery, TwoRanksComeBackAfterEveryKillAndAddCorrectly) {
  if (!has_torch()) GTEST_SKIP() << python() << " has no torch; set MUSTER_PYTHON";
  constexpr int kKills = 2;
  char log[] = "/tmp/muster-gloo-XXXXXX";
  close(mkstemp(log));
  RealClock clock;
  RealRandom random;
  Log text(clock, STDERR_FILENO, LogLevel::error, Log::Format::text);
  auto spawner = RealSpawner::start({});
  ASSERT_TRUE(spawner.ok());
  JobSpec spec;
  spec.ranks = 2;
  spec.command = {python(), "-u",
                  std::string(MUSTER_SOURCE_DIR) + "/bench/torchrun/gloo_worker.py"};
  spec.environment = {
      {"PATH", "/usr/bin:/bin"}, {"BENCH_LOG", log}, {"BENCH_KILLS", std::to_string(kKills)}};
  spec.restart.scope = RestartScope::group;
  spec.restart.max_restarts = kKills;
  spec.logs.files = false;
  spec.logs.out = spec.logs.err = StreamTarget::discard;
  Supervisor supervisor({clock, random, text, **spawner}, spec, nullptr);
  const auto report = supervisor.run();
  ASSERT_TRUE(report.ok());
  EXPECT_EQ(report->exit_code, 0) << report->to_json();
  EXPECT_EQ(report->restarts, kKills);
  for (const Cause& cause : report->causes) EXPECT_EQ(cause.exit.signal, SIGKILL);
  int right = 0;
  std::ifstream in(log);
  for (std::string line; std::getline(in, line);) {
    const nlohmann::json note = nlohmann::json::parse(line);
    right += note.contains("ok") && note["ok"] == true && note["attempt"] == kKills;
  }
  EXPECT_EQ(right, 2);
  unlink(log);
}

}  // namespace
}  // namespace muster
