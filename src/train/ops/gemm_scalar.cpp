#define MUSTER_OPS_ISA scalar
#include "train/ops/gemm_slice.h"

namespace muster::ops {

void gemm_slice_scalar(const GemmSlice<float>& slice) {
  scalar::GemmLoops<scalar::Lanes<float>>::run(slice);
}

void gemm_slice_scalar(const GemmSlice<double>& slice) {
  scalar::GemmLoops<scalar::Lanes<double>>::run(slice);
}

}  // namespace muster::ops
