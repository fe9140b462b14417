// muster plan CONFIG: the operations of one training step with predicted times, memory and FLOPs.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "app/cli/options.h"
#include "app/cli/read_config.h"
#include "app/cli/verb.h"
#include "app/train/prepare_run.h"
#include "sys/real_files.h"
#include "train/step/plan_step.h"
#include "train/step/print.h"
#include "train/step/train_config.h"

namespace muster {
namespace {

// What the command line says about the machine, in units people use.
struct RateOptions {
  double matmul_gflops, attention_gflops, memory_gb, comm_gb;

  Result<MachineRates> rates() const {
    const struct {
      const char* name;
      double value;
    } given[] = {{"--matmul-gflops", matmul_gflops},
                 {"--attention-gflops", attention_gflops},
                 {"--memory-gb", memory_gb},
                 {"--comm-gb", comm_gb}};
    for (const auto& g : given) {
      if (!(g.value > 0) || !std::isfinite(g.value)) {
        return Error(Code::invalid_argument,
                     fmt::format("{} = {}: a rate is a positive number", g.name, g.value));
      }
    }
    MachineRates rates;
    rates.matmul_flops_per_s = matmul_gflops * 1e9;
    rates.attention_flops_per_s = attention_gflops * 1e9;
    rates.memory_bytes_per_s = memory_gb * 1e9;
    rates.comm_bytes_per_s = comm_gb * 1e9;
    return rates;
  }
};

Result<PlannedStep> plan(TrainConfig config, int64_t rank) {
  // As a worker does (train/loop/warm.h): a tokenizer that is there decides the embedding's rows.
  RealFiles files("");
  MUSTER_TRY(const auto tokenizer, given_tokenizer(files, config.data.tokenizer));
  if (tokenizer) config.model.vocab_size = tokenizer->vocabulary_size();
  return plan_step(config, static_cast<int>(config.run.workers),
                   Rank{static_cast<int32_t>(std::clamp<int64_t>(rank, -1, 1 << 20))});
}

}  // namespace

int plan_main(World& world, const std::vector<std::string>& arguments) {
  std::string file;
  std::vector<std::string> sets;
  std::optional<int64_t> workers;
  int64_t rank = 0;
  bool json = false;
  const MachineRates usual;
  RateOptions rate_options{usual.matmul_flops_per_s / 1e9, usual.attention_flops_per_s / 1e9,
                           usual.memory_bytes_per_s / 1e9, usual.comm_bytes_per_s / 1e9};
  Options options(
      "plan", "print the operations of one training step with predicted time, memory and FLOPs");
  options.positional("CONFIG", file, "a TOML file of `muster train`");
  options.value("--workers", workers, "instead of run.workers");
  options.value("--rank", rank, "whose operations to print");
  options.values("--set", sets, "override: key=value (repeatable)");
  options.value("--matmul-gflops", rate_options.matmul_gflops,
                "a worker's rate of matrix products, in 10^9 FLOP/s");
  options.value("--attention-gflops", rate_options.attention_gflops,
                "a worker's rate of attention, in 10^9 FLOP/s over visible pairs");
  options.value("--memory-gb", rate_options.memory_gb,
                "a worker's memory bandwidth, in 10^9 bytes/s");
  options.value("--comm-gb", rate_options.comm_gb,
                "a worker's share of a collective, 10^9 bytes/s");
  options.flag("--json", json, "one JSON object on standard output");
  options.footer(
      "Times are predictions from the rates above; the defaults are those of one core of a server "
      "CPU.\nExit codes: 0 printed, 1 the configuration or the plan is impossible, 2 the arguments "
      "are wrong.");
  if (const auto code = options.parse(arguments)) return *code;

  if (workers) sets.push_back(fmt::format("run.workers={}", *workers));
  const auto failed = [](const Error& error) {
    fmt::print(stderr, "muster plan: {}\n", error.to_string());
    return kExitFailed;
  };
  const auto rates = rate_options.rates();
  if (!rates.ok()) {
    fmt::print(stderr, "muster plan: {}\n", rates.error().to_string());
    return kExitUsage;
  }
  const auto config = read_train_config(file, sets, world.environment);
  if (!config.ok()) return failed(config.error());
  const auto typed = make_train_config(*config);
  if (!typed.ok()) return failed(typed.error());
  const auto step = plan(*typed, rank);
  if (!step.ok()) return failed(step.error());

  const StepPrediction prediction = predict_step(step->program, *rates);
  if (json) {
    fmt::print("{}\n", step_json(*step, prediction));
  } else {
    fmt::print("{}", step_table(*step, prediction));
    fmt::print(
        "rates of a worker: matrix products {:g} GFLOP/s, attention {:g} GFLOP/s, memory {:g} "
        "GB/s, communication {:g} GB/s\n",
        rate_options.matmul_gflops, rate_options.attention_gflops, rate_options.memory_gb,
        rate_options.comm_gb);
  }
  return kExitOk;
}

}  // namespace muster
