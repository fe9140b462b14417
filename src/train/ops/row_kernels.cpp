#include "train/ops/row_kernels.h"

namespace muster::ops {

template <>
const RowKernels<float>& row_kernels<float>(Isa isa) {
  if (isa == Isa::avx512) return avx512_row_kernels_float();
  return isa == Isa::avx2 ? avx2_row_kernels_float() : scalar_row_kernels_float();
}

template <>
const RowKernels<double>& row_kernels<double>(Isa isa) {
  if (isa == Isa::avx512) return avx512_row_kernels_double();
  return isa == Isa::avx2 ? avx2_row_kernels_double() : scalar_row_kernels_double();
}

}  // namespace muster::ops
