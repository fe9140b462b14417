// Sums over the tokens of a micro-batch: fixed blocks of rows, each summed in order, and a balanced
// tree across the blocks. The result depends on the number of tokens alone, not on threads.
#pragma once

#include "train/ops/parallel.h"
#include "train/ops/row_kernels.h"

namespace muster::ops {

inline constexpr int64_t kRowBlock = 32;

constexpr int64_t row_blocks(int64_t tokens) {
  return (tokens + kRowBlock - 1) / kRowBlock;
}

// partial: [blocks, d], overwritten. sum[d] = or += the tree over the blocks: neighbours at
// distance 1 are added, then 2, 4, …. No blocks: the sum is 0.
template <class T>
void fold_row_blocks(Exec& exec, int64_t blocks, int64_t d, T* partial, T beta, T* sum) {
  if (sum == nullptr) return;
  if (blocks == 0) {
    for (int64_t i = 0; beta == 0 && i < d; ++i) sum[i] = 0;
    return;
  }
  const RowKernels<T>& rows = row_kernels<T>(exec.isa);
  parallel(exec, d, 256, [&](int64_t begin, int64_t end, int) {
    for (int64_t distance = 1; distance < blocks; distance *= 2) {
      for (int64_t b = 0; b + distance < blocks; b += 2 * distance) {
        rows.accumulate(end - begin, partial + (b + distance) * d + begin, partial + b * d + begin,
                        false);
      }
    }
    rows.accumulate(end - begin, partial + begin, sum + begin, beta == 0);
  });
}

// Calls body(block, first row, rows) for every block, split over the team.
template <class Body>
void each_row_block(Exec& exec, int64_t tokens, const Body& body) {
  parallel(exec, row_blocks(tokens), 1, [&](int64_t begin, int64_t end, int) {
    for (int64_t b = begin; b < end; ++b) {
      const int64_t first = b * kRowBlock;
      body(b, first, tokens - first < kRowBlock ? tokens - first : kRowBlock);
    }
  });
}

}  // namespace muster::ops
