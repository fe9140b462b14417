// muster_bench_step MODEL MODE STEPS THREADS: runs training steps of one worker on one micro-batch
// a step and prints one JSON object: CPU and wall seconds of every step, peak resident bytes,
// losses. MODEL: mini (Llama 6.3 M: 6 layers, 256 wide, 8 heads, 2 KV heads, 688 MLP, vocabulary
// 4,096, B8 T256) or gpt2 (124 M, B4 T64). MODE: strict or fast.
#include <sys/resource.h>

#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/philox.h"
#include "comm/shm_group.h"
#include "train/execute/step_executor.h"
#include "train/ops/gemm_chooser.h"
#include "train/step/plan_step.h"
#ifdef MUSTER_HAVE_VENDOR
#include "train/vendor/vendor_gemm.h"
#endif

namespace muster {
namespace {

ModelConfig mini() {
  ModelConfig c;
  c.family = Family::llama;
  c.vocab_size = 4096, c.hidden_size = 256, c.layers = 6, c.heads = 8, c.kv_heads = 2,
  c.head_dim = 32;
  c.mlp_size = 688, c.context = 256;
  return c;
}

ModelConfig gpt2() {
  ModelConfig c;
  c.family = Family::gpt2;
  c.vocab_size = 50257, c.hidden_size = 768, c.layers = 12, c.heads = 12, c.kv_heads = 12,
  c.head_dim = 64;
  c.mlp_size = 3072, c.context = 1024, c.norm_eps = 1e-5, c.tie_embeddings = true;
  return c;
}

double cpu_seconds() {
  timespec t;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_nsec) * 1e-9;
}

Status run(const std::string& name, ops::Mode mode, int steps, int threads) {
  const bool small = name == "mini";
  const int64_t rows = small ? 8 : 4, length = small ? 256 : 64;
  RealClock clock;
  MUSTER_TRY(auto model, Model<float>::make(small ? mini() : gpt2()));
  MUSTER_TRY(auto moments, Moments<float>::make(model->spec()));
  MUSTER_TRY(auto group, solo_group(clock, {}));
  StepLayout layout;
  layout.micro_batches = 1;
  layout.lanes = 1;
  layout.work = Workload::causal(rows, length);
  MUSTER_TRY(PlannedStep planned, plan_step(model->spec(), layout, {}));
  MUSTER_TRY(
      Arena scratch,
      Arena::make(static_cast<size_t>(StepExecutor<float>::scratch_bytes(planned, threads)), true));
  ThreadTeam team(threads);
  ops::GemmChooser chooser(clock);
  ops::Exec exec{team, scratch, ops::best_isa(), mode};
#ifdef MUSTER_HAVE_VENDOR
  if (mode == ops::Mode::fast) {
    set_vendor_threads(threads);
    exec.vendor = vendor_gemm();
    exec.chooser = &chooser;
  }
#endif
  model->initialize(1, team);
  MUSTER_TRY(auto executor, StepExecutor<float>::make(std::move(planned),
                                                      {*model, moments, exec, *group, clock}, {}));

  const int64_t tokens = rows * length;
  std::vector<int32_t> ids, targets, positions, segments;
  for (int64_t t = 0; t < tokens; ++t) {
    const auto v = static_cast<uint64_t>(model->config().vocab_size);
    ids.push_back(static_cast<int32_t>(philox_below(v, 7, static_cast<uint64_t>(t), 0)));
    targets.push_back(static_cast<int32_t>(philox_below(v, 7, static_cast<uint64_t>(t), 1 << 20)));
    positions.push_back(static_cast<int32_t>(t % length));
    if (t % length == 0) segments.push_back(static_cast<int32_t>(t));
  }
  segments.push_back(static_cast<int32_t>(tokens));
  BatchView batch{tokens, ids.data(), targets.data(), positions.data(), segments};

  nlohmann::ordered_json json;
  std::vector<double> cpu, wall, losses;
  for (int step = 1; step <= steps; ++step) {
    const double cpu_begin = cpu_seconds();
    const Nanos begin = clock.now();
    MUSTER_TRY(const StepReport report,
               executor->run({step, std::span(&batch, 1), 1e-4, step - 1}));
    cpu.push_back(cpu_seconds() - cpu_begin);
    wall.push_back(static_cast<double>((clock.now() - begin).count()) * 1e-9);
    losses.push_back(report.loss);
  }
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  json["cpu"] = cpu;
  json["wall"] = wall;
  json["losses"] = losses;
  json["peak_rss"] = usage.ru_maxrss * 1024;
  json["isa"] = ops::isa_name(exec.isa);
  json["gemm_choices"] = chooser.to_text();
  std::printf("%s\n", json.dump().c_str());
  return {};
}

}  // namespace
}  // namespace muster

int main(int argc, char** argv) {
  if (argc != 5) {
    std::fprintf(stderr, "usage: muster_bench_step mini|gpt2 strict|fast STEPS THREADS\n");
    return 2;
  }
  const auto mode =
      std::string(argv[2]) == "fast" ? muster::ops::Mode::fast : muster::ops::Mode::strict;
  const auto status = muster::run(argv[1], mode, std::atoi(argv[3]), std::atoi(argv[4]));
  if (!status.ok())
    std::fprintf(stderr, "muster_bench_step: %s\n", status.error().to_string().c_str());
  return status.ok() ? 0 : 1;
}
