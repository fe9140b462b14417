#include "app/cli/job_output.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <ctime>

#include "app/cli/options.h"
#include "store/event_log.h"
#include "sys/real_files.h"
#include "sys/real_spawner.h"
#include "train/loop/run_directory.h"

namespace muster {
namespace {

Result<JobReport> run_with_seams(World& world, JobSpec spec, JobObserver* observer,
                                 const std::string& run_directory) {
  const auto disabled = world.environment.find("MUSTER_DISABLE");
  MUSTER_TRY(auto spawner,
             RealSpawner::start({disabled == world.environment.end() ? "" : disabled->second}));
  world.log.debug("processes",
                  {{"can", spawner->caps().to_string()}, {"kill", spawner->kill_method()}});
  std::optional<EventLog> events;
  std::unique_ptr<FileLock> lock;  // one job at a time writes a run directory
  if (!run_directory.empty()) {
    RealFiles files("");
    MUSTER_TRY(lock, RunDirectory(run_directory).lock(files));
    MUSTER_TRY(EventLog opened, EventLog::open(run_directory + "/events.sqlite", world.clock));
    events.emplace(std::move(opened));
  }
  Supervisor supervisor(
      {world.clock, world.random, world.log, *spawner, events ? &*events : nullptr},
      std::move(spec), observer);
  return supervisor.run();
}

void print_end(const std::string& program, const JobReport& report) {
  if (report.exit_code == 0 && report.causes.empty()) return;
  if (report.first_cause)
    std::fprintf(stderr, "%s: %s\n", program.c_str(), report.first_cause->to_string().c_str());
  std::fprintf(stderr, "%s: %s; exit code %d", program.c_str(), report.verdict.c_str(),
               report.exit_code);
  if (report.restarts > 0) std::fprintf(stderr, ", %d restarts", report.restarts);
  struct stat info;
  if (!report.log_directory.empty() && stat(report.log_directory.c_str(), &info) == 0)
    std::fprintf(stderr, "; logs in %s", report.log_directory.c_str());
  std::fprintf(stderr, "\n");
}

}  // namespace

int run_job(World& world, const std::string& program, JobSpec spec, JobObserver* observer,
            const std::string& run_directory, bool json) {
  const Result<JobReport> report = run_with_seams(world, std::move(spec), observer, run_directory);
  if (!report.ok()) {
    std::fprintf(stderr, "%s: %s\n", program.c_str(), report.error().to_string().c_str());
    return kExitFailed;
  }
  print_end(program, *report);
  if (json) std::printf("%s\n", report->to_json().c_str());
  return report->exit_code;
}

std::string temporary_log_directory(const World& world, const std::string& what) {
  const auto set = world.environment.find("TMPDIR");
  const std::string root =
      set != world.environment.end() && !set->second.empty() ? set->second : std::string("/tmp");
  const std::time_t now =
      std::chrono::duration_cast<std::chrono::seconds>(world.clock.wall()).count();
  std::tm local{};
  localtime_r(&now, &local);
  char stamp[32];
  std::strftime(stamp, sizeof stamp, "%Y%m%d-%H%M%S", &local);
  return root + "/muster-" + std::to_string(getuid()) + "/" + what + "-" + stamp + "-" +
         std::to_string(getpid());
}

std::string fresh_run_id(Random& random) {
  char text[40];
  const uint64_t a = random.u64(), b = random.u64();
  std::snprintf(text, sizeof text, "%08x-%04x-%04x-%04x-%012llx", static_cast<unsigned>(a >> 32),
                static_cast<unsigned>(a >> 16 & 0xffff),
                static_cast<unsigned>((a & 0x0fff) | 0x4000),
                static_cast<unsigned>((b >> 48 & 0x3fff) | 0x8000),
                static_cast<unsigned long long>(b & 0xffffffffffffULL));
  return text;
}

}  // namespace muster
