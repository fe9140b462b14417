// The rate of fused multiply-adds one thread reaches: the denominator of MFU on a CPU, and a
// plausibility check of the kernels.
#pragma once

#include "train/ops/exec.h"

namespace muster::ops {

// Floating-point operations per second of thread CPU time (one fused multiply-add counts 2), float,
// with the instruction set given: the best of several runs of independent chains in registers.
// About 30 ms.
double measure_fma_peak(Isa isa);

// One run of the chains: 2 * 16 * kFmaChains * rounds operations. The result depends on all of them
// so that none is optimised away.
inline constexpr int64_t kFmaChains = 12;
float fma_chains_scalar(int64_t rounds);
float fma_chains_avx2(int64_t rounds);
float fma_chains_avx512(int64_t rounds);

}  // namespace muster::ops
