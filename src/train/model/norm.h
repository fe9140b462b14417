// Norm: the normalisation before a sub-block: RMSNorm (llama) or LayerNorm with bias (gpt2), one
// face for both. The gradients of weight and bias come out of the same kernel as dx, so backward()
// leaves them in a small slot of the frame and backward_weight() later moves them to the gradient
// view.
#pragma once

#include <algorithm>

#include "train/ops/kernels.h"
#include "train/spec/block_spec.h"

namespace muster {

template <class T>
struct NormState {
  T* mean = nullptr;      // [T]; gpt2 only
  T* rstd = nullptr;      // [T]
  T* gradient = nullptr;  // [d], gpt2 [2, d]: weight, then bias
};

struct Norm {
  bool layer_norm = false;
  int64_t d = 0;
  double eps = 0;
  int64_t weight = 0, bias = 0;  // offsets in the unit's buffer

  static Norm of(const BlockSpec& spec, int64_t weight_offset, int64_t bias_offset) {
    return {spec.config.family == Family::gpt2, spec.config.hidden_size, spec.config.norm_eps,
            weight_offset, bias_offset};
  }

  template <class T>
  void forward(ops::Exec& exec, int64_t tokens, const T* params, const T* x, T* y,
               const NormState<T>& state) const {
    if (layer_norm)
      ops::layer_norm_forward<T>(exec, tokens, d, x, nullptr, params + weight, params + bias,
                                 static_cast<T>(eps), nullptr, y, state.mean, state.rstd);
    else
      ops::rms_norm_forward<T>(exec, tokens, d, x, nullptr, params + weight, static_cast<T>(eps),
                               nullptr, y, state.rstd);
  }

  // dx = gradient through the norm + dresidual (may be null); dx may be dy.
  template <class T>
  void backward(ops::Exec& exec, int64_t tokens, const T* params, const T* dy, const T* x,
                const NormState<T>& state, const T* dresidual, T* dx) const {
    if (layer_norm)
      ops::layer_norm_backward<T>(exec, tokens, d, dy, x, state.mean, state.rstd, params + weight,
                                  dresidual, dx, state.gradient, state.gradient + d, T{0});
    else
      ops::rms_norm_backward<T>(exec, tokens, d, dy, x, state.rstd, params + weight, dresidual, dx,
                                state.gradient, T{0});
  }

  template <class T>
  void backward_weight(const NormState<T>& state, T beta, T* grads) const {
    move_gradient(state.gradient, beta, grads + weight);
    if (layer_norm) move_gradient(state.gradient + d, beta, grads + bias);
  }

 private:
  template <class T>
  void move_gradient(const T* from, T beta, T* to) const {
    if (beta == T{0})
      std::copy_n(from, d, to);
    else
      for (int64_t i = 0; i < d; ++i) to[i] += from[i];
  }
};

}  // namespace muster
