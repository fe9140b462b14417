#define MUSTER_OPS_ISA scalar
#include "train/ops/isa_tables.h"

namespace muster::ops {

const RowKernels<float>& scalar_row_kernels_float() {
  static constexpr RowKernels<float> table = scalar::make_row_kernels<scalar::Lanes<float>>();
  return table;
}

const RowKernels<double>& scalar_row_kernels_double() {
  static constexpr RowKernels<double> table = scalar::make_row_kernels<scalar::Lanes<double>>();
  return table;
}

}  // namespace muster::ops
