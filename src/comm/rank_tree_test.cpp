#include "comm/rank_tree.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <map>
#include <numeric>

#include "base/philox.h"

namespace muster {
namespace {

constexpr int64_t kMaxLeaves = 17;

// Values whose sums depend on the order of additions.
float leaf_value(int64_t leaf) {
  const uint64_t bits = philox_u64(11, static_cast<uint64_t>(leaf), 0);
  const double scale = std::ldexp(1.0, static_cast<int>(bits % 30) - 15);
  return static_cast<float>((unit_double(bits) - 0.5) * scale);
}

// The definition, straight: the value of a node over leaves that are present.
float tree_sum(TreeNode node, int64_t leaves) {
  if (node.level == 0) return leaf_value(node.index);
  const float left = tree_sum({node.level - 1, 2 * node.index}, leaves);
  const TreeNode right{node.level - 1, 2 * node.index + 1};
  return leaves_of(right, leaves).empty() ? left : left + tree_sum(right, leaves);
}

float root_sum(int64_t leaves) {
  return tree_sum({root_level(leaves), 0}, leaves);
}

TEST(RankTree, LaneRangesAreContiguousCoverAllLeavesAndDifferByAtMostOne) {
  for (int64_t v = 0; v <= kMaxLeaves; ++v)
    for (int r = 1; r <= 20; ++r) {
      int64_t next = 0, least = v, most = 0;
      for (int i = 0; i < r; ++i) {
        const LeafRange range = lane_range(v, r, Rank{i});
        EXPECT_EQ(range.begin, next);
        next = range.end;
        least = std::min(least, range.size());
        most = std::max(most, range.size());
      }
      EXPECT_EQ(next, v);
      EXPECT_LE(most - least, 1);
    }
}

TEST(RankTree, SubtreesCoverARangeExactlyWithMaximalNodes) {
  for (int64_t v = 1; v <= kMaxLeaves; ++v)
    for (int64_t begin = 0; begin <= v; ++begin)
      for (int64_t end = begin; end <= v; ++end) {
        const std::vector<TreeNode> nodes = subtrees_of(LeafRange{begin, end}, v);
        int64_t next = begin;
        for (const TreeNode node : nodes) {
          const LeafRange covered = leaves_of(node, v);
          EXPECT_EQ(covered.begin, next);
          EXPECT_FALSE(covered.empty());
          next = covered.end;
          if (node.level == root_level(v)) continue;
          const LeafRange parent = leaves_of({node.level + 1, node.index / 2}, v);
          EXPECT_TRUE(parent.begin < begin || parent.end > end) << "a larger node fits";
        }
        EXPECT_EQ(next, end);
        EXPECT_LE(nodes.size(), 2 * static_cast<size_t>(root_level(v)) + 1);
      }
}

TEST(RankTree, WhenRanksDivideAPowerOfTwoEachHasOneSubtree) {
  for (const int64_t v : {1, 2, 4, 8, 16})
    for (int64_t r = 1; r <= v; r *= 2)
      for (int32_t i = 0; i < r; ++i)
        EXPECT_EQ(subtrees_of(v, static_cast<int>(r), Rank{i}).size(), 1u) << v << " " << r;
}

TEST(RankTree, TheMergedSumHasTheBitsOfOneRankForEveryNumberOfRanks) {
  for (int64_t v = 1; v <= kMaxLeaves; ++v)
    for (int r = 1; r <= v + 2; ++r) {
      const MergePlan plan = plan_merge(v, r);
      ASSERT_EQ(plan.first_part.size(), static_cast<size_t>(r) + 1);
      std::vector<float> slots(static_cast<size_t>(plan.slots), NAN);
      for (int32_t p = 0; p < plan.parts; ++p) slots[p] = tree_sum(plan.nodes[p], v);
      for (const MergeStep step : plan.steps) {
        ASSERT_GE(step.out, plan.parts) << "a part is overwritten";
        slots[step.out] = slots[step.left] + slots[step.right];
      }
      EXPECT_EQ(std::bit_cast<uint32_t>(slots[plan.result]), std::bit_cast<uint32_t>(root_sum(v)))
          << v << " leaves, " << r << " ranks";
      EXPECT_LE(plan.slots - plan.parts, root_level(v) + 1) << "too many temporaries";
    }
}

TEST(RankTree, TheSumReallyDependsOnTheOrder) {
  // Otherwise the test above would pass for any plan.
  float in_order = 0;
  for (int64_t i = 0; i < kMaxLeaves; ++i) in_order += leaf_value(i);
  EXPECT_NE(in_order, root_sum(kMaxLeaves));
}

TEST(RankTree, NoLeavesGiveNoSum) {
  EXPECT_EQ(plan_merge(0, 3).result, -1);
  EXPECT_EQ(plan_merge(0, 3).parts, 0);
}

TEST(RankTree, AStackOfFoldsSumsANodeInItsOrder) {
  for (int64_t v = 1; v <= kMaxLeaves; ++v)
    for (int r = 1; r <= v; ++r)
      for (int32_t i = 0; i < r; ++i)
        for (const TreeNode node : subtrees_of(v, r, Rank{i})) {
          std::vector<float> stack;
          size_t deepest = 0;
          const LeafRange covered = leaves_of(node, v);
          for (int64_t leaf = covered.begin; leaf < covered.end; ++leaf) {
            stack.push_back(leaf_value(leaf));
            deepest = std::max(deepest, stack.size());
            for (int32_t folds = folds_after(node, leaf, v); folds > 0; --folds) {
              const float upper = stack.back();
              stack.pop_back();
              stack.back() = stack.back() + upper;
            }
          }
          ASSERT_EQ(stack.size(), 1u);
          EXPECT_EQ(stack[0], tree_sum(node, v));
          EXPECT_LE(deepest, static_cast<size_t>(root_level(v)) + 1);
        }
}

}  // namespace
}  // namespace muster
