// Transposing copies: lines that are contiguous along k into k-major panels.
#pragma once

#include "train/ops/rows_norm.h"

namespace muster::ops::MUSTER_OPS_ISA {

// to[i] = from[i] for i < n, 0 for n <= i < width.
template <class V>
[[gnu::always_inline]] inline void copy_padded(int64_t n, int64_t width,
                                               const typename V::Scalar* from,
                                               typename V::Scalar* to) {
  for (int64_t i = 0; i < width; i += kLanes) {
    const int64_t valid = n - i < kLanes ? n - i : kLanes;
    const V v = valid <= 0 ? V::zero() : load<V>(from + i, valid);
    store(v, to + i, width - i < kLanes ? width - i : kLanes);
  }
}

// to[k * width + r] = from[r * ld + k] for r < lines, 0 for lines <= r < width.
template <class V>
void pack_lines(int64_t width, int64_t lines, int64_t length, const typename V::Scalar* from,
                int64_t ld, typename V::Scalar* to) {
  for (int64_t k = 0; k < length; ++k) {
    for (int64_t r = 0; r < lines; ++r) to[k * width + r] = from[r * ld + k];
    for (int64_t r = lines; r < width; ++r) to[k * width + r] = 0;
  }
}

}  // namespace muster::ops::MUSTER_OPS_ISA
