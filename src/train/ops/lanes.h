// Lanes<T>: 16 virtual lanes in portable code, the reference that the vector types of lanes_avx2.h
// and lanes_avx512.h equal bit for bit. A kernel is a template over such a type V, compiled once
// per instruction set inside namespace muster::ops::MUSTER_OPS_ISA, so that no inline function
// compiled with wide instructions can be chosen by the linker for a machine that lacks them. Files
// that include this define MUSTER_OPS_ISA first; what they compile uses nothing inline from
// outside.
//
// Every operation is one IEEE operation per lane. max(a, b) = a > b ? a : b and min(a, b) = a < b ?
// a : b, so a NaN in `a` yields b and a NaN in `b` stays. sum() is the fixed tree
// ((0+8)+(4+12))+((2+10)+(6+14)) + (((1+9)+(5+13))+((3+11)+(7+15))).
#pragma once

#include <cstdint>
#include <cstring>

#ifndef MUSTER_OPS_ISA
#error "define MUSTER_OPS_ISA (scalar, avx2 or avx512) before including train/ops/lanes.h"
#endif

namespace muster::ops::MUSTER_OPS_ISA {

inline constexpr int64_t kLanes = 16;

inline constexpr uint32_t kRootHalf = 0x3f3504f3;  // bits of sqrt(1/2) in float

inline float fused(float a, float b, float c) {
  return __builtin_fmaf(a, b, c);
}
inline double fused(double a, double b, double c) {
  return __builtin_fma(a, b, c);
}
inline float square_root(float a) {
  return __builtin_sqrtf(a);
}
inline double square_root(double a) {
  return __builtin_sqrt(a);
}

template <class T>
struct Lanes {
  using Scalar = T;
  T x[kLanes];

  static Lanes set(T value) {
    Lanes r;
    for (int i = 0; i < kLanes; ++i) r.x[i] = value;
    return r;
  }
  static Lanes zero() { return set(0); }
  static Lanes load(const T* from) {
    Lanes r;
    for (int i = 0; i < kLanes; ++i) r.x[i] = from[i];
    return r;
  }
  // The first n (1 … 16) elements, 0 in the other lanes; memory behind them is not touched.
  static Lanes load_first(const T* from, int64_t n) {
    Lanes r;
    for (int i = 0; i < kLanes; ++i) r.x[i] = i < n ? from[i] : T{0};
    return r;
  }
  void store(T* to) const {
    for (int i = 0; i < kLanes; ++i) to[i] = x[i];
  }
  void store_first(T* to, int64_t n) const {
    for (int i = 0; i < n; ++i) to[i] = x[i];
  }
  // This in the first n (0 … 16) lanes, `other` in the rest.
  Lanes first_else(int64_t n, Lanes other) const {
    for (int i = 0; i < kLanes; ++i) other.x[i] = i < n ? x[i] : other.x[i];
    return other;
  }

  friend Lanes operator+(Lanes a, Lanes b) {
    for (int i = 0; i < kLanes; ++i) a.x[i] = a.x[i] + b.x[i];
    return a;
  }
  friend Lanes operator-(Lanes a, Lanes b) {
    for (int i = 0; i < kLanes; ++i) a.x[i] = a.x[i] - b.x[i];
    return a;
  }
  friend Lanes operator*(Lanes a, Lanes b) {
    for (int i = 0; i < kLanes; ++i) a.x[i] = a.x[i] * b.x[i];
    return a;
  }
  friend Lanes operator/(Lanes a, Lanes b) {
    for (int i = 0; i < kLanes; ++i) a.x[i] = a.x[i] / b.x[i];
    return a;
  }
  friend Lanes fma(Lanes a, Lanes b, Lanes c) {  // a b + c
    for (int i = 0; i < kLanes; ++i) c.x[i] = fused(a.x[i], b.x[i], c.x[i]);
    return c;
  }
  friend Lanes fnma(Lanes a, Lanes b, Lanes c) {  // c - a b
    for (int i = 0; i < kLanes; ++i) c.x[i] = fused(-a.x[i], b.x[i], c.x[i]);
    return c;
  }
  friend Lanes max(Lanes a, Lanes b) {
    for (int i = 0; i < kLanes; ++i) b.x[i] = a.x[i] > b.x[i] ? a.x[i] : b.x[i];
    return b;
  }
  friend Lanes min(Lanes a, Lanes b) {
    for (int i = 0; i < kLanes; ++i) b.x[i] = a.x[i] < b.x[i] ? a.x[i] : b.x[i];
    return b;
  }
  friend Lanes sqrt(Lanes a) {
    for (int i = 0; i < kLanes; ++i) a.x[i] = square_root(a.x[i]);
    return a;
  }
  // a < b ? yes : no, lane by lane (no where either is NaN).
  friend Lanes if_less(Lanes a, Lanes b, Lanes yes, Lanes no) {
    for (int i = 0; i < kLanes; ++i) no.x[i] = a.x[i] < b.x[i] ? yes.x[i] : no.x[i];
    return no;
  }
  // Adds the low bits of the integer in t's significand to the exponent of p: p 2^n, when t = 1.5
  // 2^23 + n and the result is a normal number. Float only.
  friend Lanes add_exponent(Lanes p, Lanes t) {
    static_assert(sizeof(T) == 4);
    for (int i = 0; i < kLanes; ++i) {
      uint32_t a, b;
      std::memcpy(&a, &p.x[i], 4);
      std::memcpy(&b, &t.x[i], 4);
      a += b << 23;
      std::memcpy(&p.x[i], &a, 4);
    }
    return p;
  }

  // a = m 2^n with m in [sqrt(1/2), sqrt(2)); returns n. For normal positive x. Float only.
  friend Lanes split_exponent(Lanes a, Lanes& m) {
    static_assert(sizeof(T) == 4);
    for (int i = 0; i < kLanes; ++i) {
      int32_t bits;
      std::memcpy(&bits, &a.x[i], 4);
      const int32_t n = static_cast<int32_t>(static_cast<uint32_t>(bits) - kRootHalf) >> 23;
      bits = static_cast<int32_t>(static_cast<uint32_t>(bits) - (static_cast<uint32_t>(n) << 23));
      std::memcpy(&m.x[i], &bits, 4);
      a.x[i] = static_cast<T>(n);
    }
    return a;
  }

  T sum() const {
    T r[kLanes];
    for (int i = 0; i < kLanes; ++i) r[i] = x[i];
    for (int width = 8; width >= 1; width /= 2) {
      for (int i = 0; i < width; ++i) r[i] = r[i] + r[i + width];
    }
    return r[0];
  }
  // The largest lane; unspecified when a lane is NaN.
  T largest() const {
    T r = x[0];
    for (int i = 1; i < kLanes; ++i) r = r > x[i] ? r : x[i];
    return r;
  }
  // A block of kSquare x kSquare elements across its diagonal: to[k * to_ld + r] = from[r * ld + k]
  // for k < columns; lines r >= `lines` count as 0. Rows of `to` are written whole, kSquare long.
  static constexpr int64_t kSquare = 16;
  static void transpose(const T* from, int64_t ld, int64_t lines, int64_t columns, T* to,
                        int64_t to_ld) {
    for (int64_t k = 0; k < columns; ++k) {
      for (int64_t r = 0; r < kSquare; ++r) to[k * to_ld + r] = r < lines ? from[r * ld + k] : T{0};
    }
  }
  // The squares of the lanes, added to 16 sums in double.
  void add_squares(double* sums) const {
    for (int i = 0; i < kLanes; ++i) {
      sums[i] = fused(static_cast<double>(x[i]), static_cast<double>(x[i]), sums[i]);
    }
  }
};

}  // namespace muster::ops::MUSTER_OPS_ISA
