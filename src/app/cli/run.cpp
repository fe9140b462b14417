// muster run: N copies of a program, supervised.
#include <unistd.h>

#include <cstdio>

#include "app/cli/job_output.h"
#include "app/cli/options.h"
#include "app/cli/verb.h"
#include "runtime/supervise/supervisor.h"

namespace muster {
namespace {

constexpr const char* kFooter =
    "Each rank gets torchrun's environment (RANK, WORLD_SIZE, MASTER_ADDR, …); a store in the\n"
    "TCPStore protocol is served for it. Rank 0 has the standard input.\n"
    "\n"
    "exit codes: 0 all ranks ended with 0; otherwise the code of the rank that failed first, or\n"
    "  128 + n if it died by signal n (also when muster was stopped by signal n);\n"
    "  2 wrong arguments, 1 the job could not be set up (for example a port in use),\n"
    "  125 the keeper process died, 126 program not executable, 127 not found.\n"
    "A first SIGINT or SIGTERM is passed on to the ranks, SIGKILL follows after --stop-grace-ms; "
    "a\n"
    "second one kills at once.";

constexpr int64_t kMostRestarts = 1 << 20;           // as run.max_restarts of muster train
constexpr int64_t kMostGraceMs = 1'000'000'000'000;  // 32 years, in the 64 bits of nanoseconds

struct Arguments {
  int64_t ranks = 0;
  std::string restart = "never";
  std::optional<int64_t> max_restarts;
  std::string log_dir, run_dir;
  bool quiet = false, json = false;
  int64_t fail_grace_ms = 50, stop_grace_ms = 500;
  std::vector<std::string> command;
};

Result<RestartPolicy> restart_policy(const Arguments& arguments) {
  RestartPolicy policy;
  if (arguments.restart == "never")
    policy.scope = RestartScope::never;
  else if (arguments.restart == "rank")
    policy.scope = RestartScope::rank;
  else if (arguments.restart == "group")
    policy.scope = RestartScope::group;
  else
    return Error(Code::invalid_argument,
                 "--restart is rank, group or never, not '" + arguments.restart + "'");
  const bool restarts = policy.scope != RestartScope::never;
  if (arguments.max_restarts &&
      (*arguments.max_restarts < 0 || *arguments.max_restarts > kMostRestarts))
    return Error(Code::invalid_argument, "--max-restarts is a number from 0 to " +
                                             std::to_string(kMostRestarts) + ", not " +
                                             std::to_string(*arguments.max_restarts));
  if (arguments.max_restarts && !restarts)
    return Error(Code::invalid_argument, "--max-restarts needs --restart rank or group");
  policy.max_restarts = restarts ? static_cast<int>(arguments.max_restarts.value_or(3)) : 0;
  return policy;
}

Result<JobSpec> job_spec(const Arguments& arguments, const World& world) {
  if (arguments.ranks < 1 || arguments.ranks > kMostRanks)
    return Error(Code::invalid_argument, "-n is a number of ranks from 1 to " +
                                             std::to_string(kMostRanks) + ", not " +
                                             std::to_string(arguments.ranks));
  if (arguments.command.empty())
    return Error(Code::invalid_argument,
                 "no command; write it after --, as in: "
                 "muster run -n 4 -- ./program");
  for (const int64_t grace : {arguments.fail_grace_ms, arguments.stop_grace_ms})
    if (grace < 0 || grace > kMostGraceMs)
      return Error(Code::invalid_argument, "a grace time is from 0 to " +
                                               std::to_string(kMostGraceMs) +
                                               " milliseconds, not " + std::to_string(grace));
  JobSpec spec;
  spec.ranks = static_cast<int>(arguments.ranks);
  spec.command = arguments.command;
  spec.environment = world.environment;
  MUSTER_TRY(spec.restart, restart_policy(arguments));
  spec.stop.fail_grace = std::chrono::milliseconds{arguments.fail_grace_ms};
  spec.stop.stop_grace = std::chrono::milliseconds{arguments.stop_grace_ms};
  spec.logs.terminal = !arguments.quiet;
  if (arguments.json) spec.logs.out_fd = STDERR_FILENO;
  spec.logs.directory = !arguments.log_dir.empty()   ? arguments.log_dir
                        : !arguments.run_dir.empty() ? arguments.run_dir + "/logs"
                                                     : temporary_log_directory(world, "run");
  spec.torchrun->run_id = fresh_run_id(world.random);
  return spec;
}

}  // namespace

int run_main(World& world, const std::vector<std::string>& words) {
  Arguments arguments;
  Options options("run",
                  "Runs N copies of a program as one job: starts them, labels and keeps\n"
                  "their output, and ends all of them when one fails.");
  options.value("-n,--ranks", arguments.ranks, "number of ranks");
  options.value("--restart", arguments.restart,
                "what starts again when a rank fails: rank, group or never (default)");
  options.value("--max-restarts", arguments.max_restarts, "restarts in all (default 3)");
  options.value("--log-dir", arguments.log_dir,
                "log files: DIR/attempt_N/RANK/{stdout,stderr}.log (default: RUN_DIR/logs, or a "
                "new folder below $TMPDIR)");
  options.value("--run-dir", arguments.run_dir, "folder for the event log and the logs");
  options.flag("-q,--quiet", arguments.quiet, "output of the ranks to log files only");
  options.value("--fail-grace-ms", arguments.fail_grace_ms,
                "from SIGTERM to SIGKILL when another rank failed (default 50)");
  options.value("--stop-grace-ms", arguments.stop_grace_ms,
                "from the passed-on signal to SIGKILL when muster is stopped (default 500)");
  options.flag("--json", arguments.json, "one JSON object on standard output at the end");
  options.rest(arguments.command, "CMD…", "program and arguments");
  options.footer(kFooter);
  if (const auto code = options.parse(words)) return *code;

  Result<JobSpec> spec = job_spec(arguments, world);
  if (!spec.ok()) {
    std::fprintf(stderr, "muster run: %s\n", spec.error().to_string().c_str());
    return kExitUsage;
  }
  return run_job(world, "muster run", *std::move(spec), nullptr, arguments.run_dir, arguments.json);
}

}  // namespace muster
