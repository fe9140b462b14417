#include "comm/rank_tree.h"

#include <algorithm>
#include <bit>

#include "base/check.h"

namespace muster {
namespace {

// Builds the steps of one plan, handing out temporaries from a free list.
class PlanBuilder {
 public:
  explicit PlanBuilder(MergePlan& plan) : plan_(plan) { plan_.slots = plan_.parts; }

  // The slot that holds the value of `node`. Every leaf of it is in some part.
  int32_t build(TreeNode node) {
    const auto it = std::find(plan_.nodes.begin(), plan_.nodes.end(), node);
    if (it != plan_.nodes.end()) return static_cast<int32_t>(it - plan_.nodes.begin());
    MUSTER_CHECK(node.level > 0, node.level, node.index);
    const TreeNode left{node.level - 1, 2 * node.index};
    const TreeNode right{node.level - 1, 2 * node.index + 1};
    const int32_t left_slot = build(left);
    if (leaves_of(right, plan_.leaves).empty()) return left_slot;
    const int32_t right_slot = build(right);
    // The sum may replace an operand: elements are added one by one.
    const int32_t out = is_temporary(left_slot)    ? left_slot
                        : is_temporary(right_slot) ? right_slot
                                                   : take();
    if (is_temporary(left_slot) && is_temporary(right_slot)) free_.push_back(right_slot);
    plan_.steps.push_back({left_slot, right_slot, out});
    return out;
  }

 private:
  bool is_temporary(int32_t slot) const { return slot >= plan_.parts; }
  int32_t take() {
    if (free_.empty()) return plan_.slots++;
    const int32_t slot = free_.back();
    free_.pop_back();
    return slot;
  }

  MergePlan& plan_;
  std::vector<int32_t> free_;
};

}  // namespace

LeafRange lane_range(int64_t leaves, int world, Rank rank) {
  MUSTER_CHECK(leaves >= 0 && world >= 1 && rank.value >= 0 && rank.value < world, leaves, world,
               rank.value);
  return {rank.value * leaves / world, (rank.value + 1) * leaves / world};
}

int32_t root_level(int64_t leaves) {
  if (leaves <= 1) return 0;
  return static_cast<int32_t>(std::bit_width(static_cast<uint64_t>(leaves - 1)));
}

LeafRange leaves_of(TreeNode node, int64_t leaves) {
  const int64_t begin = std::min(node.index << node.level, leaves);
  return {begin, std::min((node.index + 1) << node.level, leaves)};
}

std::vector<TreeNode> subtrees_of(LeafRange range, int64_t leaves) {
  MUSTER_CHECK(range.begin >= 0 && range.begin <= range.end && range.end <= leaves, range.begin,
               range.end, leaves);
  std::vector<TreeNode> nodes;
  for (int64_t at = range.begin; at < range.end;) {
    TreeNode node{0, at};
    while (node.level < root_level(leaves) && node.index % 2 == 0) {
      const TreeNode parent{node.level + 1, node.index / 2};
      if (leaves_of(parent, leaves).end > range.end) break;
      node = parent;
    }
    nodes.push_back(node);
    at = leaves_of(node, leaves).end;
  }
  return nodes;
}

std::vector<TreeNode> subtrees_of(int64_t leaves, int world, Rank rank) {
  return subtrees_of(lane_range(leaves, world, rank), leaves);
}

MergePlan plan_merge(int64_t leaves, int world) {
  MergePlan plan;
  plan.leaves = leaves;
  plan.world = world;
  for (int32_t r = 0; r < world; ++r) {
    plan.first_part.push_back(static_cast<int32_t>(plan.nodes.size()));
    const std::vector<TreeNode> mine = subtrees_of(leaves, world, Rank{r});
    plan.nodes.insert(plan.nodes.end(), mine.begin(), mine.end());
  }
  plan.parts = static_cast<int32_t>(plan.nodes.size());
  plan.first_part.push_back(plan.parts);
  plan.result = leaves == 0 ? -1 : PlanBuilder(plan).build({root_level(leaves), 0});
  plan.slots = std::max(plan.slots, plan.parts);
  return plan;
}

int32_t folds_after(TreeNode node, int64_t leaf, int64_t leaves) {
  const LeafRange covered = leaves_of(node, leaves);
  MUSTER_CHECK(leaf >= covered.begin && leaf < covered.end, leaf, covered.begin, covered.end);
  const auto pushed = static_cast<uint64_t>(leaf - covered.begin + 1);
  const int32_t carries = std::countr_zero(pushed);
  const bool last = leaf + 1 == covered.end;
  return carries + (last ? std::popcount(pushed) - 1 : 0);
}

}  // namespace muster
