#include <algorithm>

#include "base/check.h"
#include "train/ops/gemm.h"
#include "train/ops/row_blocks.h"

namespace muster::ops {

template <class T>
size_t scratch_bytes(const ScratchSizes& s) {
  MUSTER_CHECK(s.threads >= 1 && s.tokens >= 0 && s.G >= 1, s.threads, s.tokens, s.G);
  const auto threads = static_cast<size_t>(s.threads);
  const int64_t longest = std::max(s.longest_segment, kAttentionBlock);  // decode: one block
  const auto attention = static_cast<size_t>(attention_scratch(longest, s.c, s.H / s.G) + 15);
  const auto sums = static_cast<size_t>(2 * row_blocks(s.tokens) * s.widest);
  const auto squares = static_cast<size_t>(s.largest / 4096 + 1) * sizeof(double);
  return 256 + std::max({threads * kGemmScratchBytes, threads * attention * sizeof(T),
                         sums * sizeof(T), squares});
}

template size_t scratch_bytes<float>(const ScratchSizes&);
template size_t scratch_bytes<double>(const ScratchSizes&);

}  // namespace muster::ops
