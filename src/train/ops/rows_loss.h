// Cross-entropy, sums of squares and AdamW on 16 lanes (row_kernels.h has the contracts).
#pragma once

#include "train/ops/kernels.h"
#include "train/ops/rows_norm.h"
#include "train/ops/vector_math.h"

namespace muster::ops::MUSTER_OPS_ISA {

template <class V>
struct LossRows {
  using T = typename V::Scalar;

  static void cross_entropy(int64_t rows, int64_t vocabulary, int64_t ld, T* logits,
                            const int32_t* targets, T scale, T* loss) {
    const V lowest = V::set(static_cast<T>(-__builtin_inf()));
    for (int64_t t = 0; t < rows; ++t, logits += ld) {
      const int64_t target = targets[t];
      if (target < 0) {
        loss[t] = 0;
        if (scale != 0) __builtin_memset(logits, 0, static_cast<size_t>(vocabulary) * sizeof(T));
        continue;
      }
      V top = lowest;
      each_vector(vocabulary, [&](int64_t i, int64_t n) {
        top = max(load<V>(logits + i, n).first_else(n, lowest), top);
      });
      const T largest = top.largest();
      const V shift = V::set(largest);
      const T target_logit = logits[target];
      V sums = V::zero();
      if (scale == 0) {
        each_vector(vocabulary, [&](int64_t i, int64_t n) {
          sums = sums + exp(load<V>(logits + i, n) - shift).first_else(n, V::zero());
        });
      } else {
        each_vector(vocabulary, [&](int64_t i, int64_t n) {
          const V e = exp(load<V>(logits + i, n) - shift).first_else(n, V::zero());
          store(e, logits + i, n);
          sums = sums + e;
        });
      }
      const T sum = sums.sum();
      loss[t] = static_cast<T>(strict::log(static_cast<double>(sum))) + (largest - target_logit);
      if (scale == 0) continue;
      const V factor = V::set(scale / sum);
      each_vector(vocabulary, [&](int64_t i, int64_t n) {
        store(load<V>(logits + i, n) * factor, logits + i, n);
      });
      logits[target] -= scale;
    }
  }

  static double square_sum(int64_t n, const T* x) {
    double sums[kLanes] = {};
    each_vector(n, [&](int64_t i, int64_t k) { load<V>(x + i, k).add_squares(sums); });
    for (int width = 8; width >= 1; width /= 2) {
      for (int i = 0; i < width; ++i) sums[i] = sums[i] + sums[i + width];
    }
    return sums[0];
  }

  // The order of operations of PyTorch's fused CPU kernel: decay, moments, then
  // p - (lr / bias1) m / (sqrt(v) / sqrt(bias2) + eps).
  static void adamw(int64_t n, const AdamWStep& s, const T* gradient, T* parameter, T* m, T* v) {
    const V scale = V::set(static_cast<T>(s.gradient_scale));
    const V decay = V::set(static_cast<T>(1.0 - s.lr * s.weight_decay));
    const V new_m = V::set(static_cast<T>(1.0 - s.beta1));
    const V old_v = V::set(static_cast<T>(s.beta2)), new_v = V::set(static_cast<T>(1.0 - s.beta2));
    const V step_size = V::set(static_cast<T>(s.lr / s.bias1));
    const V root_bias2 = V::set(static_cast<T>(__builtin_sqrt(s.bias2)));
    const V eps = V::set(static_cast<T>(s.eps));
    each_vector(n, [&](int64_t i, int64_t k) {
      const V g = load<V>(gradient + i, k) * scale;
      const V p = load<V>(parameter + i, k) * decay;
      const V old = load<V>(m + i, k);
      const V mi = fma(new_m, g - old, old);
      const V vi = fma(new_v * g, g, load<V>(v + i, k) * old_v);
      const V denominator = sqrt(vi) / root_bias2 + eps;
      store(p - step_size * mi / denominator, parameter + i, k);
      store(mi, m + i, k);
      store(vi, v + i, k);
    });
  }
};

}  // namespace muster::ops::MUSTER_OPS_ISA
