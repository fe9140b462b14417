// The one order in which numbers are added, whatever the number of ranks: a balanced binary tree
// over global leaves (micro-batch lanes). Pure planning; nothing here touches data or peers.
//
// Node (level, index) covers leaves [index * 2^level, (index + 1) * 2^level); leaves at or past
// `leaves` are absent and pass through (no zero is added). The value of a node is left + right
// where both halves have leaves, else the value of the left half.
//
// Rank r of R holds leaves [floor(r V / R), floor((r + 1) V / R)) and contributes the values of the
// maximal nodes that lie in its range; merging them in tree order gives the bits of one rank
// holding all leaves. docs/design/comm.md.
#pragma once

#include <compare>
#include <cstdint>
#include <vector>

#include "base/ids.h"

namespace muster {

struct LeafRange {
  int64_t begin = 0, end = 0;
  int64_t size() const { return end - begin; }
  bool empty() const { return begin == end; }
  auto operator<=>(const LeafRange&) const = default;
};

struct TreeNode {
  int32_t level = 0;
  int64_t index = 0;
  auto operator<=>(const TreeNode&) const = default;
};

// The leaves of `rank`. leaves >= 0, world >= 1.
LeafRange lane_range(int64_t leaves, int world, Rank rank);

// Smallest level whose node 0 covers all leaves; 0 for one leaf.
int32_t root_level(int64_t leaves);

// The leaves a node really has: its range clipped to [0, leaves).
LeafRange leaves_of(TreeNode node, int64_t leaves);

// Disjoint nodes that cover `range` exactly, in leaf order, none inside a larger node that fits. At
// most 2 log2(leaves). Whoever holds the range sums each node in the order of folds_after.
std::vector<TreeNode> subtrees_of(LeafRange range, int64_t leaves);
std::vector<TreeNode> subtrees_of(int64_t leaves, int world, Rank rank);

// One addition: slot[out] = slot[left] + slot[right].
struct MergeStep {
  int32_t left = 0, right = 0, out = 0;
  auto operator<=>(const MergeStep&) const = default;
};

// How the parts of all ranks become the sum: slots [0, parts) are the parts in leaf order (rank by
// rank), [parts, slots) are temporaries. The result is in slot `result` after all steps; with no
// steps it is a part itself. `temporaries` are reused, so few are live at once.
struct MergePlan {
  int64_t leaves = 0;
  int world = 1;
  std::vector<int32_t>
      first_part;  // [world + 1]: rank r's parts are slots [first_part[r], first_part[r + 1])
  std::vector<TreeNode> nodes;  // of each part
  std::vector<MergeStep> steps;
  int32_t parts = 0, slots = 0;
  int32_t result = 0;  // -1 when there are no leaves
};
MergePlan plan_merge(int64_t leaves, int world);

// For whoever sums the leaves of `node` one by one with few accumulators, as a stack: push the
// leaf's value, then this many times replace the two on top by (lower + upper). After the node's
// last leaf one value is left: the node's. At most log2(leaves) + 1 values are on the stack.
int32_t folds_after(TreeNode node, int64_t leaf, int64_t leaves);

}  // namespace muster
