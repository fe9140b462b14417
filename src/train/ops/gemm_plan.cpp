#include <algorithm>
#include <bit>

#include "base/check.h"
#include "train/ops/gemm.h"

namespace muster::ops {

KPlan KPlan::make(int64_t K, int64_t limit) {
  MUSTER_CHECK(K >= 0 && limit >= 1, K, limit);
  KPlan plan;
  plan.K = K;
  const int64_t block = (K + kKBlocks - 1) / kKBlocks;
  if (block > limit) {
    plan.chunks_per_block = (block + limit - 1) / limit;
    plan.longest = (block + plan.chunks_per_block - 1) / plan.chunks_per_block;
    return plan;
  }
  while (plan.blocks_per_chunk < kKBlocks && 2 * plan.blocks_per_chunk * block <= limit) {
    plan.blocks_per_chunk *= 2;
  }
  plan.longest = std::min(K, plan.blocks_per_chunk * block);
  return plan;
}

int KPlan::slots() const {
  int most = 0;
  for (int64_t i = 0; i < chunks(); ++i) {
    const KChunk c = chunk(i);
    if (!c.last) most = std::max(most, c.stays_open ? c.slot + 1 : c.slot - c.folds + 1);
  }
  return most;
}

KChunk KPlan::chunk(int64_t i) const {
  KChunk c;
  const int64_t group = i / chunks_per_block, part = i % chunks_per_block;
  const auto g = static_cast<unsigned>(group);
  const int first = static_cast<int>(group) * blocks_per_chunk;
  const int64_t begin = k_block_begin(K, first);
  const int64_t end = k_block_begin(K, first + blocks_per_chunk);
  c.begin = begin + (end - begin) * part / chunks_per_block;
  c.end = begin + (end - begin) * (part + 1) / chunks_per_block;
  c.blocks = blocks_per_chunk;
  for (int b = 0; b < c.blocks; ++b) {
    c.ends[b] = std::min(k_block_begin(K, first + b + 1), c.end) - c.begin;
  }
  c.resumes = part > 0;
  c.stays_open = part + 1 < chunks_per_block;
  c.slot = std::popcount(g);
  c.folds = c.stays_open ? 0 : std::countr_zero(g + 1);
  c.last = i + 1 == chunks();
  return c;
}

}  // namespace muster::ops
