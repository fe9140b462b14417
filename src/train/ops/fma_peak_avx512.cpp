#define MUSTER_OPS_ISA avx512
#include "train/ops/fma_chains.h"
#include "train/ops/lanes_avx512.h"

namespace muster::ops {

float fma_chains_avx512(int64_t rounds) {
  return avx512::fma_chains<avx512::Vec, 12>(rounds);
}

}  // namespace muster::ops
