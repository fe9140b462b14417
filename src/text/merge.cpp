#include "text/merge.h"

#include <algorithm>

namespace muster {

namespace {

// Above this many symbols the heap is the faster way.
constexpr size_t kScanLimit = 48;
constexpr uint32_t kEnd = ~uint32_t{0};

size_t merge_by_scan(const PairTable& merges, uint32_t* symbols, size_t count,
                     MergeScratch& scratch, MergedPair* last) {
  uint64_t ranks[kScanLimit];
  ranks[count - 1] = PairTable::kNone;
  for (size_t i = 0; i + 1 < count; ++i) ranks[i] = merges.get(symbols[i], symbols[i + 1]);
  while (count > 1) {
    size_t best = 0;
    for (size_t i = 1; i + 1 < count; ++i)
      if (ranks[i] < ranks[best]) best = i;
    if (ranks[best] == PairTable::kNone) break;
    ++scratch.operations;
    if (last != nullptr)
      *last = {symbols[best], symbols[best + 1], static_cast<uint32_t>(ranks[best] >> 32)};
    symbols[best] = static_cast<uint32_t>(ranks[best]);
    for (size_t i = best + 1; i + 1 < count; ++i) {
      symbols[i] = symbols[i + 1];
      ranks[i] = ranks[i + 1];
    }
    --count;
    if (best > 0) ranks[best - 1] = merges.get(symbols[best - 1], symbols[best]);
    if (best + 1 < count) ranks[best] = merges.get(symbols[best], symbols[best + 1]);
  }
  return count;
}

size_t merge_by_heap(const PairTable& merges, uint32_t* symbols, size_t count,
                     MergeScratch& scratch, MergedPair* last) {
  using Candidate = MergeScratch::Candidate;
  const auto later = [](const Candidate& a, const Candidate& b) { return a.order > b.order; };
  auto& heap = scratch.heap;
  auto& next = scratch.next;
  auto& previous = scratch.previous;
  heap.clear();
  next.resize(count);
  previous.resize(count);
  const auto candidate = [&](uint32_t at, uint64_t merge) {
    return Candidate{(merge & 0xFFFFFFFF00000000u) | at, symbols[at], symbols[next[at]]};
  };
  for (uint32_t i = 0; i < count; ++i) {
    next[i] = i + 1 < count ? i + 1 : kEnd;
    previous[i] = i > 0 ? i - 1 : kEnd;
  }
  for (uint32_t i = 0; i + 1 < count; ++i) {
    const uint64_t merge = merges.get(symbols[i], symbols[i + 1]);
    if (merge != PairTable::kNone) heap.push_back(candidate(i, merge));
  }
  std::make_heap(heap.begin(), heap.end(), later);
  while (!heap.empty()) {
    std::pop_heap(heap.begin(), heap.end(), later);
    const Candidate top = heap.back();
    heap.pop_back();
    ++scratch.operations;
    const auto at = static_cast<uint32_t>(top.order);
    // A candidate whose symbols have changed since is stale. kEnd marks a symbol merged away.
    if (symbols[at] != top.left || next[at] == kEnd || symbols[next[at]] != top.right) continue;
    const uint64_t merge = merges.get(top.left, top.right);
    if (last != nullptr) *last = {top.left, top.right, static_cast<uint32_t>(merge >> 32)};
    const uint32_t gone = next[at];
    symbols[at] = static_cast<uint32_t>(merge);
    symbols[gone] = kEnd;
    next[at] = next[gone];
    if (next[at] != kEnd) previous[next[at]] = at;
    for (const uint32_t left : {previous[at], at}) {
      if (left == kEnd || next[left] == kEnd) continue;
      const uint64_t found = merges.get(symbols[left], symbols[next[left]]);
      if (found == PairTable::kNone) continue;
      heap.push_back(candidate(left, found));
      std::push_heap(heap.begin(), heap.end(), later);
    }
  }
  size_t left = 0;
  for (uint32_t i = 0; i < count; i = next[i]) {
    symbols[left++] = symbols[i];
    if (next[i] == kEnd) break;
  }
  return left;
}

}  // namespace

size_t merge_symbols(const PairTable& merges, uint32_t* symbols, size_t count,
                     MergeScratch& scratch, MergedPair* last) {
  if (count < 2) return count;
  if (count <= kScanLimit) return merge_by_scan(merges, symbols, count, scratch, last);
  return merge_by_heap(merges, symbols, count, scratch, last);
}

}  // namespace muster
