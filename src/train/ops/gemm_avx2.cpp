#define MUSTER_OPS_ISA avx2
#include "train/ops/gemm_slice.h"
#include "train/ops/lanes_avx2.h"

namespace muster::ops {

void gemm_slice_avx2(const GemmSlice<float>& slice) {
  avx2::GemmLoops<avx2::Vec>::run(slice);
}

void gemm_slice_avx2(const GemmSlice<double>& slice) {
  avx2::GemmLoops<avx2::Lanes<double>>::run(slice);
}

}  // namespace muster::ops
