// Small matrix products in registers: C[M,N] (=, +=) A[M,K] B[K,N], each element one chain of fused
// multiply-adds in k order that starts at 0 or at C. Vectors run along N; A is read by broadcast
// with any strides, so A may be a transpose. Used by attention, whose operands fit in cache.
#pragma once

#include "train/ops/rows_norm.h"

namespace muster::ops::MUSTER_OPS_ISA {

// Rows and vectors of a register tile: 12 x 2 fills 24 of AVX-512's 32 registers; 6 x 1 is 12 of
// AVX2's 16 (a Vec is two registers there).
#if defined(__AVX512F__)
inline constexpr int kTileRows = 12, kTileVectors = 2;
#else
inline constexpr int kTileRows = 6, kTileVectors = 1;
#endif

template <class T>
struct SmallProduct {
  int64_t K;
  const T* A;
  int64_t a_row, a_k;
  const T* B;
  int64_t ldb;
  T* C;
  int64_t ldc;
  bool accumulate;
};

// One R x (16 NV) tile at A, B, C; the last vector has `last` valid columns.
template <class V, int R, int NV>
[[gnu::noinline]] void product_tile(const SmallProduct<typename V::Scalar>& p, int64_t row,
                                    int64_t column, int64_t last) {
  using T = typename V::Scalar;
  const T* A = p.A + row * p.a_row;
  const T* B = p.B + column;
  T* C = p.C + row * p.ldc + column;
  V acc[R][NV];
  const auto count = [&](int v) { return v == NV - 1 ? last : kLanes; };
#pragma GCC unroll 16
  for (int r = 0; r < R; ++r) {
#pragma GCC unroll 4
    for (int v = 0; v < NV; ++v) {
      acc[r][v] = p.accumulate ? load<V>(C + r * p.ldc + v * kLanes, count(v)) : V::zero();
    }
  }
  const auto step = [&](const T* a, const T* b, bool whole) __attribute__((always_inline)) {
    V bv[NV];
#pragma GCC unroll 4
    for (int v = 0; v < NV; ++v) {
      bv[v] = whole ? V::load(b + v * kLanes) : load<V>(b + v * kLanes, count(v));
    }
#pragma GCC unroll 16
    for (int r = 0; r < R; ++r) {
      const V av = V::set(a[r * p.a_row]);
#pragma GCC unroll 4
      for (int v = 0; v < NV; ++v) acc[r][v] = fma(av, bv[v], acc[r][v]);
    }
  };
  if (last == kLanes) {
    for (int64_t k = 0; k < p.K; ++k) step(A + k * p.a_k, B + k * p.ldb, true);
  } else {
    for (int64_t k = 0; k < p.K; ++k) step(A + k * p.a_k, B + k * p.ldb, false);
  }
#pragma GCC unroll 16
  for (int r = 0; r < R; ++r) {
#pragma GCC unroll 4
    for (int v = 0; v < NV; ++v) store(acc[r][v], C + r * p.ldc + v * kLanes, count(v));
  }
}

template <class V, int R>
void product_rows(const SmallProduct<typename V::Scalar>& p, int64_t row, int64_t N) {
  constexpr int64_t kWide = kTileVectors * kLanes;
  int64_t n = 0;
  for (; n + kWide <= N; n += kWide) product_tile<V, R, kTileVectors>(p, row, n, kLanes);
  for (; n < N; n += kLanes) {
    product_tile<V, R, 1>(p, row, n, N - n < kLanes ? N - n : kLanes);
  }
}

// `rows` rows from `row`, in tiles of kTileRows, then 6, 4, 2 and 1.
template <class V>
void product_strip(const SmallProduct<typename V::Scalar>& p, int64_t row, int64_t rows,
                   int64_t N) {
  while (rows > 0) {
    int64_t done;
    if (rows >= kTileRows) {
      product_rows<V, kTileRows>(p, row, N), done = kTileRows;
    } else if (rows >= 6) {
      product_rows<V, 6>(p, row, N), done = 6;
    } else if (rows >= 4) {
      product_rows<V, 4>(p, row, N), done = 4;
    } else if (rows >= 2) {
      product_rows<V, 2>(p, row, N), done = 2;
    } else {
      product_rows<V, 1>(p, row, N), done = 1;
    }
    row += done;
    rows -= done;
  }
}

}  // namespace muster::ops::MUSTER_OPS_ISA
