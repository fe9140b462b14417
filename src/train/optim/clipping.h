// Global-norm clipping. The norm is a sum of squares in double: per parameter in the kernel's fixed
// order, then over the parameters in the order of ModelSpec::params (unit by unit), one after
// another. So it depends on the gradients alone: not on ranks, threads or how units are grouped.
// Gaps of the buffers are not read.
#pragma once

#include "train/ops/kernels.h"
#include "train/spec/block_spec.h"

namespace muster {

// Sums of squares of the parameters of one unit, in the unit's parameter order, written to out[0 …
// params - 1]. `gradient`: the unit's buffer.
template <class T>
void squares_of_unit(ops::Exec& exec, const ModelSpec& spec, int unit, const T* gradient,
                     double* out);

struct Clipping {
  double norm = 0;  // of scale * gradient; not finite if any element is not
  double factor =
      0;  // multiply the gradient with this: scale, lowered where the norm is above the bound
  bool finite = false;  // false: the step must be skipped
};

// `squares`: of all parameters, in the order of ModelSpec::params. scale > 0 is applied to the
// gradient first (1 when it is already per valid token). max_norm 0 = no bound. The factor follows
// torch's clip_grad_norm_: min(1, max_norm / (norm + 1e-6)).
Clipping clip(std::span<const double> squares, double scale, double max_norm);

}  // namespace muster
