#define MUSTER_OPS_ISA scalar
#include "train/ops/fma_chains.h"

namespace muster::ops {

float fma_chains_scalar(int64_t rounds) {
  return scalar::fma_chains<scalar::Lanes<float>, 12>(rounds);
}

}  // namespace muster::ops
