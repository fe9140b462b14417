#include "train/optim/clipping.h"

#include <cmath>

namespace muster {

template <class T>
void squares_of_unit(ops::Exec& exec, const ModelSpec& spec, int unit, const T* gradient,
                     double* out) {
  for (int index : spec.units[static_cast<size_t>(unit)].params) {
    const Param& param = spec.params[static_cast<size_t>(index)];
    *out++ = ops::sum_of_squares<T>(exec, param.count(), gradient + param.offset);
  }
}

Clipping clip(std::span<const double> squares, double scale, double max_norm) {
  double sum = 0;
  for (double s : squares) sum += s;
  Clipping result;
  result.norm = scale * std::sqrt(sum);
  result.finite = std::isfinite(result.norm);
  result.factor = scale;
  if (max_norm > 0 && result.finite) {
    const double bound = max_norm / (result.norm + 1e-6);
    if (bound < 1) result.factor = scale * bound;
  }
  return result;
}

template void squares_of_unit(ops::Exec&, const ModelSpec&, int, const float*, double*);
template void squares_of_unit(ops::Exec&, const ModelSpec&, int, const double*, double*);

}  // namespace muster
