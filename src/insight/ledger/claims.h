// Claims: overlapping statements "this interval was spent on that", and their resolution into a
// partition: every instant of a window goes to the first claiming leaf in Leaf's order, or `other`.
// Pure.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "insight/ledger/leaf.h"

namespace muster {

// Half-open, nanoseconds. Empty when end <= begin.
struct Interval {
  int64_t begin = 0, end = 0;
  bool empty() const { return end <= begin; }
  int64_t length() const { return empty() ? 0 : end - begin; }
  bool operator==(const Interval&) const = default;
};
Interval intersect(Interval x, Interval y);

struct Claim {
  Leaf leaf = Leaf::other;
  Interval when;
};

// The times sum to window.length() exactly; none is negative. Claims may lie outside the window, be
// empty, nest, repeat and overlap in any way.
LeafTimes attribute(Interval window, std::span<const Claim> claims);

// The partition itself, adjacent equal leaves merged.
std::vector<Claim> partition(Interval window, std::span<const Claim> claims);

}  // namespace muster
