// Norms and sums over rows, on 16 lanes (row_kernels.h has the contracts, kernels.h the formulas).
#pragma once

#include "train/ops/lanes.h"

namespace muster::ops::MUSTER_OPS_ISA {

// Calls body(offset, count) for each 16 elements of [0, n); full vectors have count == kLanes.
template <class Body>
[[gnu::always_inline]] inline void each_vector(int64_t n, Body body) {
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) body(i, kLanes);
  if (i < n) body(i, n - i);
}
template <class V>
[[gnu::always_inline]] inline V load(const typename V::Scalar* from, int64_t count) {
  return count == kLanes ? V::load(from) : V::load_first(from, count);
}
template <class V>
[[gnu::always_inline]] inline void store(V value, typename V::Scalar* to, int64_t count) {
  if (count == kLanes) {
    value.store(to);
  } else {
    value.store_first(to, count);
  }
}

template <class V>
struct NormRows {
  using T = typename V::Scalar;

  static void rms_forward(int64_t rows, int64_t d, const T* x, const T* residual, const T* weight,
                          T eps, T* h, T* y, T* rstd) {
    for (int64_t t = 0; t < rows; ++t, x += d, y += d) {
      V squares = V::zero();
      each_vector(d, [&](int64_t i, int64_t n) {
        V value = load<V>(x + i, n);
        if (residual != nullptr) value = value + load<V>(residual + i, n);
        if (h != nullptr) store(value, h + i, n);
        squares = fma(value, value, squares);
      });
      const T r = T{1} / square_root(squares.sum() / static_cast<T>(d) + eps);
      rstd[t] = r;
      const T* from = h != nullptr ? h : x;
      each_vector(d, [&](int64_t i, int64_t n) {
        store(load<V>(from + i, n) * V::set(r) * load<V>(weight + i, n), y + i, n);
      });
      if (residual != nullptr) residual += d;
      if (h != nullptr) h += d;
    }
  }

  // With g = dy w and x = h rstd: dh = rstd (g - x mean(g x)) + dresidual.
  static void rms_backward(int64_t rows, int64_t d, const T* dy, const T* h, const T* rstd,
                           const T* weight, const T* dresidual, T* dh, T* dweight) {
    clear(dweight, d);
    for (int64_t t = 0; t < rows; ++t, dy += d, h += d, dh += d) {
      const V r = V::set(rstd[t]);
      V dot = V::zero();
      each_vector(d, [&](int64_t i, int64_t n) {
        const V g = load<V>(dy + i, n) * load<V>(weight + i, n);
        dot = fma(g, load<V>(h + i, n) * r, dot);
      });
      const V mean = V::set(dot.sum() / static_cast<T>(d));
      each_vector(d, [&](int64_t i, int64_t n) {
        const V dyi = load<V>(dy + i, n), x = load<V>(h + i, n) * r;
        const V g = dyi * load<V>(weight + i, n);
        V grad = r * fnma(x, mean, g);
        if (dresidual != nullptr) grad = grad + load<V>(dresidual + i, n);
        if (dweight != nullptr) store(fma(dyi, x, load<V>(dweight + i, n)), dweight + i, n);
        store(grad, dh + i, n);
      });
      if (dresidual != nullptr) dresidual += d;
    }
  }

  static void layer_forward(int64_t rows, int64_t d, const T* x, const T* residual, const T* weight,
                            const T* bias, T eps, T* h, T* y, T* mean, T* rstd) {
    for (int64_t t = 0; t < rows; ++t, x += d, y += d) {
      V sum = V::zero();
      each_vector(d, [&](int64_t i, int64_t n) {
        V value = load<V>(x + i, n);
        if (residual != nullptr) value = value + load<V>(residual + i, n);
        if (h != nullptr) store(value, h + i, n);
        sum = sum + value;
      });
      const T* from = h != nullptr ? h : x;
      const T m = sum.sum() / static_cast<T>(d);
      V squares = V::zero();
      each_vector(d, [&](int64_t i, int64_t n) {
        const V centred = (load<V>(from + i, n) - V::set(m)).first_else(n, V::zero());
        squares = fma(centred, centred, squares);
      });
      const T r = T{1} / square_root(squares.sum() / static_cast<T>(d) + eps);
      mean[t] = m;
      rstd[t] = r;
      each_vector(d, [&](int64_t i, int64_t n) {
        const V xhat = (load<V>(from + i, n) - V::set(m)) * V::set(r);
        store(fma(xhat, load<V>(weight + i, n), load<V>(bias + i, n)), y + i, n);
      });
      if (residual != nullptr) residual += d;
      if (h != nullptr) h += d;
    }
  }

  // With g = dy w and x = (h - mean) rstd: dh = rstd (g - mean(g) - x mean(g x)) + dresidual.
  static void layer_backward(int64_t rows, int64_t d, const T* dy, const T* h, const T* mean,
                             const T* rstd, const T* weight, const T* dresidual, T* dh, T* dweight,
                             T* dbias) {
    clear(dweight, d);
    clear(dbias, d);
    for (int64_t t = 0; t < rows; ++t, dy += d, h += d, dh += d) {
      const V r = V::set(rstd[t]), m = V::set(mean[t]);
      V sum = V::zero(), dot = V::zero();
      each_vector(d, [&](int64_t i, int64_t n) {
        const V g = load<V>(dy + i, n) * load<V>(weight + i, n);  // 0 behind the row's end
        sum = sum + g;
        dot = fma(g, (load<V>(h + i, n) - m) * r, dot);
      });
      const V mean_g = V::set(sum.sum() / static_cast<T>(d));
      const V mean_gx = V::set(dot.sum() / static_cast<T>(d));
      each_vector(d, [&](int64_t i, int64_t n) {
        const V dyi = load<V>(dy + i, n), x = (load<V>(h + i, n) - m) * r;
        const V g = dyi * load<V>(weight + i, n);
        V grad = r * fnma(x, mean_gx, g - mean_g);
        if (dresidual != nullptr) grad = grad + load<V>(dresidual + i, n);
        if (dweight != nullptr) store(fma(dyi, x, load<V>(dweight + i, n)), dweight + i, n);
        if (dbias != nullptr) store(load<V>(dbias + i, n) + dyi, dbias + i, n);
        store(grad, dh + i, n);
      });
      if (dresidual != nullptr) dresidual += d;
    }
  }

  static void column_sums(int64_t rows, int64_t d, const T* dy, T* sums) {
    clear(sums, d);
    for (int64_t t = 0; t < rows; ++t, dy += d) accumulate(d, dy, sums, false);
  }

  static void accumulate(int64_t n, const T* x, T* y, bool overwrite) {
    if (overwrite) {
      if (x != y) __builtin_memmove(y, x, static_cast<size_t>(n) * sizeof(T));
      return;
    }
    each_vector(
        n, [&](int64_t i, int64_t k) { store(load<V>(y + i, k) + load<V>(x + i, k), y + i, k); });
  }

  static void add(int64_t n, const T* a, const T* b, T* out) {
    each_vector(
        n, [&](int64_t i, int64_t k) { store(load<V>(a + i, k) + load<V>(b + i, k), out + i, k); });
  }

 private:
  static void clear(T* p, int64_t n) {
    if (p != nullptr) __builtin_memset(p, 0, static_cast<size_t>(n) * sizeof(T));
  }
};

}  // namespace muster::ops::MUSTER_OPS_ISA
