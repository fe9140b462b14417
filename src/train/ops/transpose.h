// Copies of a matrix into k-major panels of `width` lines: to[k * width + r] = line r, element k.
// Short rows are written with whole vectors that run over into the next row, which is written
// later: up to kOverrun elements behind the last row of a panel are overwritten.
#pragma once

#include "train/ops/rows_norm.h"

namespace muster::ops::MUSTER_OPS_ISA {

inline constexpr int64_t kOverrun = kLanes;

// Lines contiguous in memory, ld apart; lines >= `lines` are 0.
template <class V>
void pack_lines(int64_t width, int64_t lines, int64_t length, const typename V::Scalar* from,
                int64_t ld, typename V::Scalar* to) {
  constexpr int64_t kSquare = V::kSquare;
  for (int64_t k = 0; k < length; k += kSquare) {
    const int64_t columns = length - k < kSquare ? length - k : kSquare;
    for (int64_t r = 0; r < width; r += kSquare) {
      V::transpose(from + (r < lines ? r * ld + k : 0), ld, lines - r, columns, to + k * width + r,
                   width);
    }
  }
}

// One row k of a panel whose lines lie side by side: `lines` of `width` elements. `loose` says that
// kLanes elements may be read and written.
template <class V>
[[gnu::always_inline]] inline void copy_row(int64_t width, int64_t lines, bool loose,
                                            const typename V::Scalar* from,
                                            typename V::Scalar* to) {
  for (int64_t i = 0; i < width; i += kLanes) {
    if (loose) {
      V::load(from + i).store(to + i);
      continue;
    }
    const int64_t valid = lines - i < kLanes ? lines - i : kLanes;
    const V v = valid <= 0 ? V::zero() : load<V>(from + i, valid);
    store(v, to + i, width - i < kLanes ? width - i : kLanes);
  }
}

}  // namespace muster::ops::MUSTER_OPS_ISA
