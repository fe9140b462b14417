#define MUSTER_OPS_ISA avx2
#include "train/ops/isa_tables.h"
#include "train/ops/lanes_avx2.h"

namespace muster::ops {

const RowKernels<float>& avx2_row_kernels_float() {
  static constexpr RowKernels<float> table = avx2::make_row_kernels<avx2::Vec>();
  return table;
}

const RowKernels<double>& avx2_row_kernels_double() {
  static constexpr RowKernels<double> table = avx2::make_row_kernels<avx2::Lanes<double>>();
  return table;
}

}  // namespace muster::ops
