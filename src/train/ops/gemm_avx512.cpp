#define MUSTER_OPS_ISA avx512
#include "train/ops/gemm_slice.h"
#include "train/ops/lanes_avx512.h"

namespace muster::ops {

void gemm_slice_avx512(const GemmSlice<float>& slice) {
  avx512::GemmLoops<avx512::Vec>::run(slice);
}

void gemm_slice_avx512(const GemmSlice<double>& slice) {
  avx512::GemmLoops<avx512::Lanes<double>>::run(slice);
}

}  // namespace muster::ops
