#include "train/step/memory_plan.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "train/step/step_cases.h"

namespace muster {
namespace {

using namespace step_cases;  // NOLINT: the vocabulary of these tests

PlannedStep planned(int64_t layers, int64_t budget) {
  return plan_step(spec(tiny_llama(layers)), layout(8, 8, 1, 0),
                   {.memory_budget = Bytes{budget}, .least_bucket = Bytes{0}})
      .value();
}

int64_t count(const StepProgram& program, OpKind kind) {
  return std::count_if(program.ops.begin(), program.ops.end(),
                       [&](const StepOp& op) { return op.kind == kind; });
}

TEST(MemoryPlan, MicroBatchesReuseTheSameMemory) {
  const auto bytes = [](int64_t micro_batches) {
    return plan_step(spec(tiny_llama(4)), layout(micro_batches, micro_batches, 1, 0), {})
        .value()
        .memory.local_bytes;
  };
  EXPECT_EQ(bytes(1), bytes(2));
  EXPECT_EQ(bytes(1), bytes(16));
}

TEST(MemoryPlan, GradientsNeedOneMoreLeafForEachDoublingOfLanes) {
  // Leaf memory of the largest bucket grows by its subtree sums only; the other units' leaves are
  // added and given back before the next unit's is written.
  const auto bytes = [](int64_t lanes) {
    return plan_step(spec(tiny_llama(4)), layout(lanes, lanes, 1, 0), {.least_bucket = Bytes{0}})
        .value()
        .memory.shared_bytes;
  };
  const int64_t all = spec(tiny_llama(4)).buffer_elements() * 4;
  EXPECT_EQ(bytes(1), all);
  EXPECT_LE(bytes(2), 2 * all);
  EXPECT_LE(bytes(8), 4 * all);
  EXPECT_LT(bytes(8), bytes(16));
}

TEST(MemoryPlan, PlacementIsCloseToTheLeastPossible) {
  for (const int64_t layers : {1, 2, 6, 12}) {
    const MemoryPlan memory = planned(layers, 0).memory;
    EXPECT_GE(memory.local_bytes, memory.local_sweep);
    EXPECT_LE(static_cast<double>(memory.local_bytes),
              1.10 * static_cast<double>(memory.local_sweep))
        << layers << " layers";
    EXPECT_LE(static_cast<double>(memory.shared_bytes),
              1.10 * static_cast<double>(memory.shared_sweep))
        << layers << " layers";
  }
}

TEST(MemoryPlan, WithoutABudgetNothingIsRecomputed) {
  const PlannedStep step = planned(4, 0);
  EXPECT_EQ(count(step.program, OpKind::recompute), 0);
  EXPECT_EQ(step.program.frame_bytes_dropped, 0);
  EXPECT_EQ(step.program.repeated_flops(), planned(4, int64_t{1} << 40).program.repeated_flops());
}

TEST(MemoryPlan, ABudgetIsKeptByDroppingCheapFramesFirst) {
  const int64_t full = planned(6, 0).memory.total();
  const PlannedStep little = planned(6, full - 1);
  EXPECT_LT(little.memory.total(), full);
  ASSERT_GT(count(little.program, OpKind::recompute), 0);
  for (const StepOp& op : little.program.ops) {
    if (op.kind != OpKind::recompute) continue;
    EXPECT_TRUE(op.cheap_only);
    EXPECT_EQ(op.repeated_flops, 0);
  }
}

TEST(MemoryPlan, TighterBudgetsRepeatMoreUntilNothingIsLeftToDrop) {
  const int64_t full = planned(6, 0).memory.total();
  int64_t last_repeated = -1, last_total = full + 1;
  int64_t budget = full;
  int steps = 0;
  for (;; ++steps) {
    const auto result = plan_step(spec(tiny_llama(6)), layout(8, 8, 1, 0),
                                  {.memory_budget = Bytes{budget}, .least_bucket = Bytes{0}});
    if (!result.ok()) {
      EXPECT_EQ(result.error().code(), Code::no_space);
      EXPECT_NE(result.error().message().find("train.memory_budget"), std::string::npos);
      break;
    }
    EXPECT_LE(result->memory.total(), budget);
    EXPECT_LT(result->memory.total(), last_total);
    EXPECT_GE(result->program.repeated_flops(), last_repeated) << "budget " << budget;
    last_repeated = result->program.repeated_flops();
    last_total = result->memory.total();
    budget = result->memory.total() - 1;
    ASSERT_LT(steps, 100);
  }
  EXPECT_GT(steps, 4);
  EXPECT_LT(last_total, full);
}

TEST(MemoryPlan, ARestoredFrameIsNewMemoryAndTheDroppedOneDiesWithItsForward) {
  const int64_t full = planned(6, 0).memory.total();
  const PlannedStep step = planned(6, full * 8 / 10);
  const std::vector<Lifetime> lives = buffer_lifetimes(step.program);
  std::set<std::pair<int, int64_t>> restored;  // (block, micro-batch)
  for (const StepOp& op : step.program.ops) {
    if (op.kind != OpKind::recompute) continue;
    restored.insert({op.block, op.micro_batch});
    EXPECT_EQ(step.program.ops[static_cast<size_t>(op.id) + 1].kind, OpKind::backward_input);
  }
  ASSERT_FALSE(restored.empty());
  for (const StepOp& op : step.program.ops) {
    if (op.kind != OpKind::forward || !restored.contains({op.block, op.micro_batch})) continue;
    for (const int b : op.writes) {
      if (step.program.buffers[static_cast<size_t>(b)].kind == BufferKind::cheap) {
        EXPECT_EQ(lives[static_cast<size_t>(b)].last, op.id);
      }
    }
  }
}

}  // namespace
}  // namespace muster
