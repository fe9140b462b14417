#include "train/step/cost_model.h"

#include <algorithm>
#include <cmath>

namespace muster {
namespace {

Nanos seconds(double s) {
  return Nanos{static_cast<int64_t>(std::llround(s * 1e9))};
}

}  // namespace

KernelFlops kernel_flops(const StepProgram& program, const StepOp& op) {
  KernelFlops result;
  const int64_t all = op.flops + op.repeated_flops;
  if (op.block >= 0 &&
      program.model.blocks[static_cast<size_t>(op.block)].kind == BlockKind::attention) {
    const ModelConfig& c = program.model.config;
    // Scores and weighted values: 2 x 2 FLOPs per (query head element, visible key) forward;
    // backward twice that, and the scores once more.
    const int64_t forward = 4 * c.heads * c.head_dim * program.layout.work.pairs;
    if (op.kind == OpKind::forward || (op.kind == OpKind::recompute && !op.cheap_only)) {
      result.attention = forward;
    } else if (op.kind == OpKind::backward_input) {
      result.attention = 2 * forward + op.repeated_flops;
    }
    result.attention = std::min(result.attention, all);
  }
  result.matmul = all - result.attention;
  return result;
}

Nanos predict_op(const StepProgram& program, const StepOp& op, const MachineRates& rates) {
  const double bytes = static_cast<double>(op.bytes);
  if (op.stream == OpStream::comm) {
    const double n = program.layout.world;
    if (n == 1) return Nanos{0};
    return rates.comm_latency + seconds(2 * (n - 1) / n * bytes / rates.comm_bytes_per_s);
  }
  const KernelFlops flops = kernel_flops(program, op);
  return seconds(static_cast<double>(flops.matmul) / rates.matmul_flops_per_s +
                 static_cast<double>(flops.attention) / rates.attention_flops_per_s +
                 bytes / rates.memory_bytes_per_s);
}

StepPrediction predict_step(const StepProgram& program, const MachineRates& rates) {
  StepPrediction p;
  Nanos free[2] = {Nanos{0}, Nanos{0}};
  std::vector<Nanos> end(program.ops.size());
  for (size_t i = 0; i < program.ops.size(); ++i) {
    const StepOp& op = program.ops[i];
    Nanos& stream = free[static_cast<size_t>(op.stream)];
    Nanos start = stream;
    for (const int id : op.after) start = std::max(start, end[static_cast<size_t>(id)]);
    const Nanos duration = predict_op(program, op, rates);
    if (op.stream == OpStream::comp) {
      p.exposed_comm += start - stream;
      p.compute += duration;
    } else {
      p.comm += duration;
    }
    stream = end[i] = start + duration;
    p.start.push_back(start);
    p.duration.push_back(duration);
  }
  p.total = std::max(free[0], free[1]);
  return p;
}

}  // namespace muster
