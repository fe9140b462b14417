#include "train/optim/adamw.h"

#include <fmt/format.h>

#include <cmath>

#include "base/strict_math.h"

namespace muster {

Status validate(const AdamW& a) {
  const auto bad = [](std::string text) { return Error(Code::invalid_argument, std::move(text)); };
  if (!(a.beta1 >= 0 && a.beta1 < 1))
    return bad(fmt::format("optimizer: beta1 = {} must be in [0, 1)", a.beta1));
  if (!(a.beta2 >= 0 && a.beta2 < 1))
    return bad(fmt::format("optimizer: beta2 = {} must be in [0, 1)", a.beta2));
  if (!(a.eps > 0) || !std::isfinite(a.eps))
    return bad(fmt::format("optimizer: eps = {} must be positive", a.eps));
  if (!(a.weight_decay >= 0) || !std::isfinite(a.weight_decay))
    return bad(fmt::format("optimizer: weight_decay = {} must not be negative", a.weight_decay));
  return {};
}

std::vector<DecayRun> decay_runs(const ModelSpec& spec, int unit, DecayPolicy policy) {
  std::vector<DecayRun> runs;
  for (int index : spec.units[static_cast<size_t>(unit)].params) {
    const Param& p = spec.params[static_cast<size_t>(index)];
    const bool decays = policy == DecayPolicy::all || p.weight_decay;
    if (!runs.empty() && runs.back().end == p.offset && runs.back().decays == decays)
      runs.back().end += p.count();
    else
      runs.push_back({p.offset, p.offset + p.count(), decays});
  }
  return runs;
}

ops::AdamWStep adamw_step(const AdamW& a, double lr, int64_t updates_done, double gradient_scale) {
  MUSTER_CHECK(updates_done >= 0, updates_done);
  return {lr,
          a.beta1,
          a.beta2,
          a.eps,
          a.weight_decay,
          1.0 - strict::pow_int(a.beta1, updates_done + 1),
          1.0 - strict::pow_int(a.beta2, updates_done + 1),
          gradient_scale};
}

template <class T>
void update_unit(ops::Exec& exec, std::span<const DecayRun> runs, ops::AdamWStep step,
                 const T* gradient, T* parameter, T* m, T* v) {
  const double decay = step.weight_decay;
  for (const DecayRun& run : runs) {
    step.weight_decay = run.decays ? decay : 0.0;
    ops::adamw<T>(exec, run.end - run.begin, step, gradient + run.begin, parameter + run.begin,
                  m + run.begin, v + run.begin);
  }
}

template void update_unit(ops::Exec&, std::span<const DecayRun>, ops::AdamWStep, const float*,
                          float*, float*, float*);
template void update_unit(ops::Exec&, std::span<const DecayRun>, ops::AdamWStep, const double*,
                          double*, double*, double*);

}  // namespace muster
