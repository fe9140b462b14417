// exp and sigmoid over 16 lanes: polynomial code shared by all vector types, so bits are equal on
// every instruction set. Float: within 2 ulp; double: by strict_math.h, lane by lane.
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

// 1 / (1 + exp(-x)).
template <class V>
V sigmoid(V x) {
  const V one = V::set(1);
  return one / (one + exp(V::zero() - x));
}

}  // namespace muster::ops::MUSTER_OPS_ISA
