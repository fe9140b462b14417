#define MUSTER_OPS_ISA avx512
#include "train/ops/isa_tables.h"
#include "train/ops/lanes_avx512.h"

namespace muster::ops {

const RowKernels<float>& avx512_row_kernels_float() {
  static constexpr RowKernels<float> table = avx512::make_row_kernels<avx512::Vec>();
  return table;
}

const RowKernels<double>& avx512_row_kernels_double() {
  static constexpr RowKernels<double> table = avx512::make_row_kernels<avx512::Lanes<double>>();
  return table;
}

}  // namespace muster::ops
