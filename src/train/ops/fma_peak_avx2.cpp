#define MUSTER_OPS_ISA avx2
#include "train/ops/fma_chains.h"
#include "train/ops/lanes_avx2.h"

namespace muster::ops {

float fma_chains_avx2(int64_t rounds) {
  return avx2::fma_chains<avx2::Vec, 6>(rounds);
}

}  // namespace muster::ops
