// muster-trainer worker and template: ranks of a training run.
#include <signal.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <optional>

#include "app/cli/options.h"
#include "app/cli/process.h"
#include "app/trainer/trainer_verbs.h"
#include "app/trainer/vendor.h"
#include "net/real_transport.h"
#include "runtime/supervise/template_server.h"
#include "sys/real_files.h"
#include "trace/vocabulary.h"
#include "train/loop/worker.h"
#include "train/ops/fma_peak.h"

namespace muster {
namespace {

struct Arguments {
  std::string run_dir;
  std::vector<std::string> injections;
};

std::optional<int> parse(const char* verb, const std::vector<std::string>& words,
                         Arguments& arguments) {
  Options options(verb,
                  "One rank of a training run (started by muster train, or by torchrun or srun).");
  options.value("--run-dir", arguments.run_dir, "the run's folder, prepared by muster train");
  options.values("--inject", arguments.injections, "a fault to bring about: kill:rank=R,step=S");
  options.footer(
      "Exit codes: 0 done or stopped after a checkpoint; 1 failed; 93 failed and a restart would "
      "fail again.");
  return options.parse(words);
}

std::string variable(const std::map<std::string, std::string>& environment, const char* name) {
  const auto it = environment.find(name);
  return it == environment.end() ? std::string() : it->second;
}

// The region that the supervisor passed, or one of our own when there is no supervisor.
Result<TraceRegion> open_region(const std::map<std::string, std::string>& environment) {
  const std::string text = variable(environment, kTraceFdVariable);
  int fd = -1;
  const auto [end, status] = std::from_chars(text.data(), text.data() + text.size(), fd);
  if (status == std::errc{} && end == text.data() + text.size()) return TraceRegion::map(fd);
  TraceRegionOptions options;
  options.rank = std::atoi(variable(environment, "RANK").c_str());
  return TraceRegion::create(options);
}

void stop_on_signals() {
  struct sigaction action{};
  action.sa_handler = [](int) { request_worker_stop(); };
  action.sa_flags = SA_RESTART;
  sigaction(SIGTERM, &action, nullptr);
  sigaction(SIGINT, &action, nullptr);
}

// `environment` is the rank's own: after a fork it is not the template's.
int work(World& world, const std::map<std::string, std::string>& environment, Files& files,
         const Warm& warm, double peak, const std::vector<std::string>& injection_texts) {
  stop_on_signals();
  std::vector<Injection> injections;
  for (const std::string& text : injection_texts) {
    auto injection = parse_injection(text);
    if (!injection.ok()) {
      world.log.error("bad injection", {{"error", injection.error().to_string()}});
      return kExitUsage;
    }
    injections.push_back(*injection);
  }
  auto region = open_region(environment);
  if (!region.ok()) {
    world.log.error("no trace region", {{"error", region.error().to_string()}});
    return kExitFailed;
  }
  Recorder recorder(std::move(*region));
  RealTransport transport(world.clock);
  WorkerSeams seams{world.clock, world.random, files, transport, world.log, {}};
  seams.environment.insert(environment.begin(), environment.end());
  if (warm.config.train.mode == TrainSettings::Mode::fast) {
    seams.vendor = open_vendor(static_cast<int>(warm.config.train.threads));
    seams.vendor_name = vendor_text();
    if (seams.vendor == nullptr)
      world.log.info("fast mode uses our own kernels", {{"vendor", seams.vendor_name}});
  }
  seams.peak_flops_per_second = peak;
  return run_worker(warm, seams, recorder, injections);
}

}  // namespace

int worker_main(World& world, const std::vector<std::string>& words) {
  Arguments arguments;
  if (const auto code = parse("worker", words, arguments)) return *code;
  RealFiles files("");
  const auto warm =
      warm_up(files, world.random, RunDirectory(arguments.run_dir), world.environment);
  if (!warm.ok()) {
    world.log.error("the worker cannot start", {{"error", warm.error().to_string()}});
    return kExitNoRestart;
  }
  return work(world, world.environment, files, *warm, ops::measure_fma_peak(warm->isa),
              arguments.injections);
}

int template_main(World& world, const std::vector<std::string>& words) {
  Arguments arguments;
  if (const auto code = parse("template", words, arguments)) return *code;
  RealFiles files("");
  const auto warm =
      warm_up(files, world.random, RunDirectory(arguments.run_dir), world.environment);
  if (!warm.ok()) {
    world.log.error("the workers cannot start", {{"error", warm.error().to_string()}});
    return kExitNoRestart;
  }
  const double peak = ops::measure_fma_peak(warm->isa);
  const auto child = serve_template();
  if (!child.ok()) {
    world.log.error("the template cannot serve", {{"error", child.error().to_string()}});
    return kExitFailed;
  }
  // From here on this is a rank.
  const std::vector<std::string> argv(child->argv.begin() + std::min<size_t>(2, child->argv.size()),
                                      child->argv.end());
  Arguments own;
  if (const auto code = parse("worker", argv, own)) return *code;
  return work(world, current_environment(), files, *warm, peak, own.injections);
}

}  // namespace muster
