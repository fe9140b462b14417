// Linear: y = x W (+ bias) and its two gradients, for both storage orders of W: [out, in] (llama)
// and [in, out] (gpt2). x: [T, in], y: [T, out], row-major without gaps. Pure; memory is the
// caller's.
#pragma once

#include "train/ops/kernels.h"

namespace muster {

enum class WeightOrder : uint8_t { out_in, in_out };

struct Linear {
  int64_t in = 0, out = 0;
  WeightOrder order = WeightOrder::out_in;

  // beta = 1 adds to y. `bias` [out] may be null.
  template <class T>
  void forward(ops::Exec& exec, int64_t tokens, const T* x, const T* weight, const T* bias, T beta,
               T* y) const {
    if (order == WeightOrder::out_in)
      ops::gemm<T>(exec, ops::Trans::no, ops::Trans::yes, tokens, out, in, x, in, weight, in, beta,
                   y, out, bias);
    else
      ops::gemm<T>(exec, ops::Trans::no, ops::Trans::no, tokens, out, in, x, in, weight, out, beta,
                   y, out, bias);
  }

  // dx = gradient of x; overwritten.
  template <class T>
  void backward_input(ops::Exec& exec, int64_t tokens, const T* dy, const T* weight, T* dx) const {
    if (order == WeightOrder::out_in)
      ops::gemm<T>(exec, ops::Trans::no, ops::Trans::no, tokens, in, out, dy, out, weight, in, T{0},
                   dx, in);
    else
      ops::gemm<T>(exec, ops::Trans::no, ops::Trans::yes, tokens, in, out, dy, out, weight, out,
                   T{0}, dx, in);
  }

  // dweight (and dbias, when not null) = or += .
  template <class T>
  void backward_weight(ops::Exec& exec, int64_t tokens, const T* x, const T* dy, T beta, T* dweight,
                       T* dbias) const {
    if (order == WeightOrder::out_in)
      ops::gemm<T>(exec, ops::Trans::yes, ops::Trans::no, out, in, tokens, dy, out, x, in, beta,
                   dweight, in);
    else
      ops::gemm<T>(exec, ops::Trans::yes, ops::Trans::no, in, out, tokens, x, in, dy, out, beta,
                   dweight, out);
    if (dbias != nullptr) ops::bias_backward<T>(exec, tokens, out, dy, beta, dbias);
  }
};

}  // namespace muster
