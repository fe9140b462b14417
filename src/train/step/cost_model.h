// Predicts what a step costs on a machine: each operation's own time from its FLOPs and bytes, and
// from these, replayed on the two streams, when it starts and ends, how long the comp stream waits
// for the comm stream and how long the step takes.
//
// An operation takes products / rate + attention / rate + bytes / bandwidth; a message takes
// latency + 2 (n - 1) / n x bytes / bandwidth (a reduce-scatter and an all-gather). With several
// workers on one machine each has the rates it sees then.
// Pure functions.
#pragma once

#include <cstdint>
#include <vector>

#include "base/clock.h"
#include "train/step/program.h"

namespace muster {

// The defaults were measured on one core of an AMD EPYC server CPU with AVX2, CPU time, one thread:
// the own product on the shapes of a 256-wide model, attention over visible pairs, the fused
// elementwise kernels.
struct MachineRates {
  double matmul_flops_per_s = 95e9;     // own matrix product, all threads of a worker
  double attention_flops_per_s = 85e9;  // over visible pairs, exponentials included
  double memory_bytes_per_s = 40e9;     // elementwise passes of one worker
  double comm_bytes_per_s = 4e9;        // one rank's share of a collective
  Nanos comm_latency = std::chrono::microseconds{30};
};

// FLOPs of an operation by the kernel that does them, repeated ones included.
struct KernelFlops {
  int64_t matmul = 0, attention = 0;
};
KernelFlops kernel_flops(const StepProgram& program, const StepOp& op);

// Alone on its stream.
Nanos predict_op(const StepProgram& program, const StepOp& op, const MachineRates& rates);

struct StepPrediction {
  std::vector<Nanos> start, duration;  // by operation
  Nanos total{0};
  Nanos compute{0};       // busy time of the comp stream
  Nanos comm{0};          // busy time of the comm stream
  Nanos exposed_comm{0};  // the comp stream waits for the comm stream
};
StepPrediction predict_step(const StepProgram& program, const MachineRates& rates);

}  // namespace muster
