// Activations on 16 lanes (row_kernels.h has the contracts).
#pragma once

#include "train/ops/rows_norm.h"
#include "train/ops/vector_math.h"

namespace muster::ops::MUSTER_OPS_ISA {

template <class V>
struct MlpRows {
  using T = typename V::Scalar;

  static void swiglu_forward(int64_t rows, int64_t F, const T* gate_up, T* y) {
    for (int64_t t = 0; t < rows; ++t, gate_up += 2 * F, y += F) {
      each_vector(F, [&](int64_t i, int64_t n) {
        const V g = load<V>(gate_up + i, n);
        store(g * sigmoid(g) * load<V>(gate_up + F + i, n), y + i, n);
      });
    }
  }

  // silu'(g) = s (1 + g (1 - s)) with s = sigmoid(g).
  static void swiglu_backward(int64_t rows, int64_t F, const T* gate_up, const T* dy, T* dgate_up) {
    const V one = V::set(1);
    for (int64_t t = 0; t < rows; ++t, gate_up += 2 * F, dgate_up += 2 * F, dy += F) {
      each_vector(F, [&](int64_t i, int64_t n) {
        const V g = load<V>(gate_up + i, n), u = load<V>(gate_up + F + i, n);
        const V d = load<V>(dy + i, n), s = sigmoid(g);
        const V slope = s * fma(g, one - s, one);
        store(d * u * slope, dgate_up + i, n);
        store(d * (g * s), dgate_up + F + i, n);
      });
    }
  }

  // gelu(x) = x/2 (1 + tanh(w)) = x sigmoid(2 w) with w = sqrt(2/pi) (x + 0.044715 x³): the second
  // form loses nothing where tanh is near -1 and needs no tanh.
  static void gelu_forward(int64_t n, const T* x, T* y) {
    each_vector(n, [&](int64_t i, int64_t k) {
      const V a = load<V>(x + i, k);
      store(a * sigmoid(twice_w(a)), y + i, k);
    });
  }

  // d/dx = s + x s (1 - s) 2 w'(x).
  static void gelu_backward(int64_t n, const T* x, const T* dy, T* dx) {
    const V one = V::set(1);
    each_vector(n, [&](int64_t i, int64_t k) {
      const V a = load<V>(x + i, k);
      const V s = sigmoid(twice_w(a));
      const V slope = fma(a * a, V::set(static_cast<T>(3 * kCubic)), V::set(static_cast<T>(kTwo)));
      store(load<V>(dy + i, k) * fma(a * s, (one - s) * slope, s), dx + i, k);
    });
  }

 private:
  static constexpr double kTwo = 1.59576912160573071176;  // 2 sqrt(2 / pi)
  static constexpr double kCubic = kTwo * 0.044715;
  static V twice_w(V a) {
    return a * fma(a * a, V::set(static_cast<T>(kCubic)), V::set(static_cast<T>(kTwo)));
  }
};

}  // namespace muster::ops::MUSTER_OPS_ISA
