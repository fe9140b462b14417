// exp, log and sigmoid over 16 lanes: polynomial code shared by all vector types, so bits are equal
// on every instruction set. Float: within 2 ulp; double: by strict_math.h, lane by lane.
#pragma once

#include "base/strict_math.h"
#include "train/ops/lanes.h"

namespace muster::ops::MUSTER_OPS_ISA {

// exp(x) = 2^n exp(r), n = round(x / ln 2), |r| <= ln 2 / 2; exp(r) = 1 + r + r² q(r) with q a
// minimax fit of degree 4 (relative error 3e-9). Results below the smallest normal number are 0,
// above the largest +inf; NaN stays NaN; exp(0) is exactly 1.
template <class V>
V exp(V x) {
  if constexpr (sizeof(typename V::Scalar) == 8) {
    for (int i = 0; i < kLanes; ++i) x.x[i] = strict::exp(x.x[i]);
    return x;
  } else {
    const V kMagic = V::set(0x1.8p23f);  // x + magic - magic = nearest integer
    const V kLow = V::set(-0x1.5d589ep6f), kHigh = V::set(0x1.62e42ep6f);  // -126 ln 2, 128 ln 2
    const V c = max(kLow, min(kHigh, x));
    const V t = fma(c, V::set(0x1.715476p0f), kMagic);
    const V n = t - kMagic;
    V r = fnma(n, V::set(0x1.62e43p-1f), c);
    r = fnma(n, V::set(-0x1.05c61p-29f), r);
    V q = fma(V::set(0x1.6a243p-10f), r, V::set(0x1.1239e4p-7f));
    q = fma(q, r, V::set(0x1.5558f2p-5f));
    q = fma(q, r, V::set(0x1.555492p-3f));
    q = fma(q, r, V::set(0x1.fffffcp-2f));
    const V p = fma(r * r, q, r) + V::set(1.0f);
    V y = add_exponent(p, t);
    y = if_less(x, kLow, V::zero(), y);
    y = if_less(kHigh, x, V::set(__builtin_inff()), y);
    return if_less(x, V::set(__builtin_inff()), y, x);  // +inf and NaN are their own result
  }
}

// log(x) for normal positive x: x = m 2^n, f = m - 1; log(1 + f) = f - f²/2 + f³ q(f) with q a
// minimax fit of degree 8 (relative error 1e-9). +inf and NaN are their own result; anything else
// outside the domain is unspecified.
template <class V>
V log(V x) {
  if constexpr (sizeof(typename V::Scalar) == 8) {
    for (int i = 0; i < kLanes; ++i) x.x[i] = strict::log(x.x[i]);
    return x;
  } else {
    V m = x;
    const V n = split_exponent(x, m);
    const V f = m - V::set(1.0f), z = f * f;
    V q = fma(V::set(0x1.14576ep-4f), f, V::set(-0x1.de3c06p-4f));
    q = fma(q, f, V::set(0x1.e6f07cp-4f));
    q = fma(q, f, V::set(-0x1.fc220ap-4f));
    q = fma(q, f, V::set(0x1.23376p-3f));
    q = fma(q, f, V::set(-0x1.555c4ep-3f));
    q = fma(q, f, V::set(0x1.99a4b6p-3f));
    q = fma(q, f, V::set(-0x1.000006p-2f));
    q = fma(q, f, V::set(0x1.555548p-2f));
    const V low = fma(n, V::set(-0x1.05c61p-29f), fma(f * z, q, V::set(-0.5f) * z));
    const V y = fma(n, V::set(0x1.62e43p-1f), f + low);
    return if_less(x, V::set(__builtin_inff()), y, x);
  }
}

// 1 / (1 + exp(-x)).
template <class V>
V sigmoid(V x) {
  const V one = V::set(1);
  return one / (one + exp(V::zero() - x));
}

}  // namespace muster::ops::MUSTER_OPS_ISA
