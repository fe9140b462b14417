// Split of the merged query/key/value rows into heads, with rotation (row_kernels.h).
#pragma once

#include "train/ops/rows_norm.h"

namespace muster::ops::MUSTER_OPS_ISA {

template <class V>
struct RopeRows {
  using T = typename V::Scalar;

  static void forward(int64_t begin, int64_t end, int64_t tokens, int64_t H, int64_t G, int64_t c,
                      const T* qkv, const int32_t* positions, const T* cos_sin, T* q, T* k, T* v) {
    for (int64_t t = begin; t < end; ++t) {
      const T* from = qkv + t * (H + 2 * G) * c;
      const T* table = cos_sin == nullptr ? nullptr : cos_sin + positions[t] * c;
      for (int64_t h = 0; h < H; ++h, from += c)
        rotate(c, from, table, false, q + (h * tokens + t) * c);
      for (int64_t g = 0; g < G; ++g, from += c)
        rotate(c, from, table, false, k + (g * tokens + t) * c);
      for (int64_t g = 0; g < G; ++g, from += c)
        rotate(c, from, nullptr, false, v + (g * tokens + t) * c);
    }
  }

  static void backward(int64_t begin, int64_t end, int64_t tokens, int64_t H, int64_t G, int64_t c,
                       const T* dq, const T* dk, const T* dv, const int32_t* positions,
                       const T* cos_sin, T* dqkv) {
    for (int64_t t = begin; t < end; ++t) {
      T* to = dqkv + t * (H + 2 * G) * c;
      const T* table = cos_sin == nullptr ? nullptr : cos_sin + positions[t] * c;
      for (int64_t h = 0; h < H; ++h, to += c)
        rotate(c, dq + (h * tokens + t) * c, table, true, to);
      for (int64_t g = 0; g < G; ++g, to += c)
        rotate(c, dk + (g * tokens + t) * c, table, true, to);
      for (int64_t g = 0; g < G; ++g, to += c)
        rotate(c, dv + (g * tokens + t) * c, nullptr, true, to);
    }
  }

 private:
  // (a, b) -> (a cos - b sin, b cos + a sin) for a = x[i], b = x[i + c/2]; `back` turns the other
  // way. Without a table, a copy.
  static void rotate(int64_t c, const T* x, const T* table, bool back, T* out) {
    if (table == nullptr) {
      __builtin_memcpy(out, x, static_cast<size_t>(c) * sizeof(T));
      return;
    }
    const int64_t half = c / 2;
    each_vector(half, [&](int64_t i, int64_t n) {
      const V a = load<V>(x + i, n), b = load<V>(x + half + i, n);
      const V cosine = load<V>(table + i, n);
      V sine = load<V>(table + half + i, n);
      if (back) sine = V::zero() - sine;
      store(fnma(b, sine, a * cosine), out + i, n);
      store(fma(a, sine, b * cosine), out + half + i, n);
    });
  }
};

}  // namespace muster::ops::MUSTER_OPS_ISA
