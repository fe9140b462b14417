// Independent chains of fused multiply-adds over a 16-lane vector type (fma_peak.h).
#pragma once

#include "train/ops/fma_peak.h"
#include "train/ops/lanes.h"

namespace muster::ops::MUSTER_OPS_ISA {

// kFmaChains chains of 16 lanes hide the latency of every instruction set (AVX2: two registers
// each); what does not fit into registers would be measured as memory, so AVX2 takes half as many
// at a time.
template <class V, int kChains>
float fma_chains(int64_t rounds) {
  V sum[kChains];
  for (int i = 0; i < kChains; ++i) sum[i] = V::set(static_cast<float>(i));
  const V factor = V::set(0.999f), term = V::set(1e-3f);
  for (int64_t r = 0; r < rounds * (kFmaChains / kChains); ++r) {
#pragma GCC unroll 12
    for (int i = 0; i < kChains; ++i) sum[i] = fma(sum[i], factor, term);
  }
  V total = sum[0];
  for (int i = 1; i < kChains; ++i) total = total + sum[i];
  return total.sum();
}

}  // namespace muster::ops::MUSTER_OPS_ISA
