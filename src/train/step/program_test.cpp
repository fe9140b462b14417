#include "train/step/program.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "train/step/build.h"
#include "train/step/gradients.h"
#include "train/step/plan_step.h"
#include "train/step/step_cases.h"
#include "train/step/validate.h"

namespace muster {
namespace {

using namespace step_cases;  // NOLINT: the vocabulary of these tests

using Lines = std::vector<std::string>;

TEST(StepProgram, OneMicroBatchOfOneLayerInFull) {
  const PlannedStep step =
      plan_step(spec(tiny_llama(1)), layout(1, 1, 1, 0), {.least_bucket = Bytes{0}}).value();
  EXPECT_EQ(lines(step.program), (Lines{
                                     "count",
                                     "forward embedding g0",
                                     "forward layers.0.attention g0",
                                     "forward layers.0.mlp g0",
                                     "forward head g0",
                                     "losses",
                                     "backward_input head g0",
                                     "backward_weight head g0",
                                     "backward_input layers.0.mlp g0",
                                     "backward_weight layers.0.mlp g0",
                                     "backward_input layers.0.attention g0",
                                     "backward_weight layers.0.attention g0",
                                     "backward_weight embedding g0",
                                     "clip",
                                     "update root",
                                     "update layers.0",
                                 }));
}

TEST(StepProgram, HeadWaitsForTheCountOfValidTokens) {
  const PlannedStep step = plan_step(spec(tiny_llama(1)), layout(2, 2, 1, 0), {}).value();
  for (const StepOp& op : step.program.ops) {
    if (text(step.program, op).starts_with("forward head")) {
      EXPECT_EQ(op.after, std::vector<int>{0}) << op.id;
    }
  }
}

// The gradient operations of the layer's unit, in order.
Lines gradient_lines(const StepLayout& where) {
  const PlannedStep step =
      plan_step(spec(tiny_llama(1)), where, {.least_bucket = Bytes{0}}).value();
  Lines list;
  for (const StepOp& op : step.program.ops) {
    if (op.bucket < 0 || step.program.buckets[static_cast<size_t>(op.bucket)].name != "layers.0")
      continue;
    if (op.kind == OpKind::backward_weight && op.opens_leaf)
      list.push_back("leaf g" + std::to_string(op.micro_batch));
    const auto g = [&](int buffer) {
      return std::to_string(step.program.buffers[static_cast<size_t>(buffer)].micro_batch);
    };
    if (op.kind == OpKind::add) list.push_back("add " + g(op.reads[0]) + "+" + g(op.reads[1]));
    if (op.kind == OpKind::reduce) {
      std::string line = "reduce";
      for (const int b : op.reads) line += " " + g(b);
      list.push_back(line);
    }
  }
  return list;
}

TEST(StepProgram, LeavesAreAddedInTheTreeOverLanes) {
  const struct {
    const char* name;
    StepLayout where;
    Lines want;
  } cases[] = {
      {"one rank, four lanes: a binary counter",
       layout(4, 4, 1, 0),
       {"leaf g0", "leaf g1", "add 0+1", "leaf g2", "leaf g3", "add 2+3", "add 0+2"}},
      {"five lanes: the fifth passes through to the root",
       layout(5, 5, 1, 0),
       {"leaf g0", "leaf g1", "add 0+1", "leaf g2", "leaf g3", "add 2+3", "add 0+2", "leaf g4",
        "add 0+4"}},
      {"two ranks: each holds one subtree",
       layout(4, 4, 2, 1),
       {"leaf g2", "leaf g3", "add 2+3", "reduce 2"}},
      {"three ranks, eight lanes: the middle one (lanes 2, 3, 4) holds two subtrees",
       layout(8, 8, 3, 1),
       {"leaf g2", "leaf g3", "add 2+3", "leaf g4", "reduce 2 4"}},
      {"two rounds: summed over ranks one by one, then added in order",
       layout(4, 2, 2, 0),
       {"leaf g0", "reduce 0", "leaf g2", "reduce 2", "add 0+2"}},
      {"three rounds: a round is added when the next one is complete",
       layout(6, 2, 2, 1),
       {"leaf g1", "reduce 1", "leaf g3", "reduce 3", "leaf g5", "add 1+3", "reduce 5", "add 1+5"}},
      {"two rounds on one rank",
       layout(4, 2, 1, 0),
       {"leaf g0", "leaf g1", "add 0+1", "leaf g2", "leaf g3", "add 2+3", "add 0+2"}},
  };
  for (const auto& c : cases) {
    SCOPED_TRACE(c.name);
    EXPECT_EQ(gradient_lines(c.where), c.want);
  }
}

TEST(StepProgram, AReduceStartsAsSoonAsItsUnitIsCompleteAndOnlyClipWaits) {
  const PlannedStep step =
      plan_step(spec(tiny_llama(2)), layout(2, 2, 2, 0), {.least_bucket = Bytes{0}}).value();
  const Lines list = lines(step.program);
  const auto at = [&](const std::string& line) {
    return std::find(list.begin(), list.end(), line) - list.begin();
  };
  EXPECT_EQ(at("reduce layers.1 g0"), at("backward_weight layers.1.attention g0") + 1);
  EXPECT_LT(at("reduce layers.1 g0"), at("backward_input layers.0.mlp g0"));
  EXPECT_EQ(at("reduce root g0"), at("backward_weight embedding g0") + 1);
  for (const StepOp& op : step.program.ops) {
    const bool waits = std::any_of(op.after.begin(), op.after.end(), [&](int id) {
      return step.program.ops[static_cast<size_t>(id)].kind == OpKind::reduce;
    });
    EXPECT_EQ(waits, op.kind == OpKind::clip) << text(step.program, op);
  }
}

TEST(StepProgram, SmallUnitsShareABucketAndABucketIsOneMessage) {
  const ModelSpec model = spec(tiny_llama(3));
  const int64_t layer = model.units[1].elements * 4;
  const struct {
    const char* name;
    int64_t least;
    Lines want;
  } cases[] = {
      {"no least size: a bucket for each unit", 0, {"layers.2", "layers.1", "layers.0", "root"}},
      {"exactly a layer's size: still one each",
       layer,
       {"layers.2", "layers.1", "layers.0", "root"}},
      {"one byte more: pairs", layer + 1, {"layers.2+layers.1", "layers.0+root"}},
      {"more than the model: one", int64_t{1} << 30, {"layers.2+layers.1+layers.0+root"}},
  };
  for (const auto& c : cases) {
    SCOPED_TRACE(c.name);
    const PlannedStep step =
        plan_step(model, layout(4, 4, 2, 0), {.least_bucket = Bytes{c.least}}).value();
    Lines names;
    int64_t elements = 0;
    for (const GradientBucket& b : step.program.buckets) {
      names.push_back(b.name);
      elements += b.elements;
    }
    EXPECT_EQ(names, c.want);
    EXPECT_EQ(elements, model.buffer_elements());
    EXPECT_EQ(std::count_if(step.program.ops.begin(), step.program.ops.end(),
                            [](const StepOp& op) { return op.kind == OpKind::reduce; }),
              static_cast<int64_t>(c.want.size()));
  }
}

TEST(StepProgram, LayoutsThatCannotWorkAreRefusedWithARemedy) {
  const struct {
    StepLayout where;
    const char* want;
  } cases[] = {
      {layout(8, 8, 0, 0), "0 workers: at least 1"},
      {layout(0, 1, 1, 0), "0 micro-batches a step"},
      {layout(8, 3, 1, 0), "3 virtual shards do not divide 8"},
      {layout(4, 4, 5, 0), "use at most 4 workers"},
      {layout(8, 2, 3, 0), "3 workers for 2 virtual shards"},
      {layout(8, 8, 2, 2), "rank 2 of 2 workers"},
  };
  for (const auto& c : cases) {
    const auto result = plan_step(spec(tiny_llama(1)), c.where, {});
    ASSERT_FALSE(result.ok()) << c.want;
    EXPECT_EQ(result.error().code(), Code::invalid_argument);
    EXPECT_NE(result.error().message().find(c.want), std::string::npos) << result.error().message();
  }
  EXPECT_TRUE(plan_step(spec(tiny_llama(1)), layout(4, 4, 4, 3), {}).ok());
}

TEST(StepProgram, EveryLayoutPassesTheValidators) {
  for (const ModelConfig& config : {tiny_llama(2), tiny_gpt2(3)}) {
    for (const int64_t lanes : {1, 2, 3, 5, 7, 8}) {
      for (const int64_t rounds : {1, 2, 3}) {
        for (int world = 1; world <= lanes && world <= 5; ++world) {
          for (int rank = 0; rank < world; ++rank) {
            for (const int64_t least : {int64_t{0}, int64_t{1} << 16}) {
              const auto step = plan_step(spec(config), layout(lanes * rounds, lanes, world, rank),
                                          {.least_bucket = Bytes{least}});
              ASSERT_TRUE(step.ok()) << step.error().to_string() << " lanes " << lanes << " rounds "
                                     << rounds << " world " << world << " rank " << rank;
            }
          }
        }
      }
    }
  }
}

// All ranks of a group must start the same collectives in the same order with the same sizes.
TEST(StepProgram, RanksIssueEqualCollectivesInEqualOrder) {
  for (const int world : {2, 3, 4}) {
    Lines first;
    for (int rank = 0; rank < world; ++rank) {
      const PlannedStep step =
          plan_step(spec(tiny_llama(3)), layout(14, 7, world, rank), {}).value();
      Lines list;
      for (const StepOp& op : step.program.ops) {
        if (op.stream != OpStream::comm) continue;
        list.push_back(std::string(op_kind_name(op.kind)) + " " + std::to_string(op.bucket) + " " +
                       std::to_string(op.bytes));
      }
      if (rank == 0) first = list;
      // `losses` follows the rank's last forward pass; the order of the rest decides.
      EXPECT_EQ(list, first) << "rank " << rank << " of " << world;
    }
  }
}

// ---- validators: each breaks a good program in one place.

class Broken : public ::testing::Test {
 protected:
  PlannedStep good_ =
      plan_step(spec(tiny_llama(2)), layout(8, 4, 2, 0), {.least_bucket = Bytes{0}}).value();

  StepOp& find(OpKind kind, size_t nth = 0) {
    for (StepOp& op : good_.program.ops) {
      if (op.kind == kind && nth-- == 0) return op;
    }
    ADD_FAILURE() << "no such operation";
    return good_.program.ops[0];
  }
  void expect(const Status& status, const char* what) {
    ASSERT_FALSE(status.ok()) << "not noticed: " << what;
    EXPECT_NE(status.error().message().find(what), std::string::npos) << status.error().message();
  }
};

TEST_F(Broken, Nothing) {
  EXPECT_TRUE(validate_step(good_.program, good_.memory, Bytes{0}).ok());
}
TEST_F(Broken, ACircleOverTwoStreams) {
  // The first reduce waits for clip, which waits for it.
  find(OpKind::reduce).after.push_back(find(OpKind::clip).id);
  expect(validate_order(good_.program), "circle");
}
TEST_F(Broken, AReduceThatDoesNotWaitForItsLeaf) {
  find(OpKind::reduce).after.clear();
  expect(validate_buffers(good_.program, good_.memory), "before");
}
TEST_F(Broken, AClipThatDoesNotWaitForAReduce) {
  good_ = plan_step(spec(tiny_llama(2)), layout(4, 4, 2, 0), {.least_bucket = Bytes{0}}).value();
  StepOp& clip = find(OpKind::clip);
  // Streams are in order, so all but the last of these are implied.
  clip.after.erase(std::max_element(clip.after.begin(), clip.after.end()));
  expect(validate_buffers(good_.program, good_.memory), "before");
}
TEST_F(Broken, ABufferReadAfterItsRelease) {
  StepOp& release = find(OpKind::release);
  find(OpKind::update).reads.push_back(release.reads[0]);
  expect(validate_buffers(good_.program, good_.memory), "was released");
}
TEST_F(Broken, ABufferNobodyWrote) {
  find(OpKind::forward, 0).writes.clear();
  expect(validate_buffers(good_.program, good_.memory), "nothing wrote");
}
TEST_F(Broken, ABufferNeverReleased) {
  find(OpKind::release, 1).reads.clear();
  expect(validate_buffers(good_.program, good_.memory), "never released");
}
TEST_F(Broken, TwoLiveBuffersInOnePlace) {
  const StepOp& op = find(OpKind::backward_input, 1);
  good_.memory.offset[static_cast<size_t>(op.writes[0])] =
      good_.memory.offset[static_cast<size_t>(op.reads[0])];
  expect(validate_buffers(good_.program, good_.memory), "overlap");
}
TEST_F(Broken, MoreMemoryThanTheBudget) {
  EXPECT_TRUE(validate_memory(good_.memory, Bytes{good_.memory.total()}).ok());
  expect(validate_memory(good_.memory, Bytes{good_.memory.total() - 1}), "budget");
}
TEST_F(Broken, AnAdditionLeftOut) {
  auto& ops = good_.program.ops;
  ops.erase(std::find_if(ops.begin(), ops.end(),
                         [](const StepOp& op) { return op.kind == OpKind::add; }));
  expect(validate_leaves(good_.program), "not");
}
TEST_F(Broken, AnAdditionTheOtherWayRound) {
  StepOp& add = find(OpKind::add);
  std::swap(add.reads[0], add.reads[1]);
  expect(validate_leaves(good_.program), "not");
}
TEST_F(Broken, MicroBatchesOutOfOrder) {
  for (StepOp& op : good_.program.ops) {
    if (op.micro_batch == 0) op.micro_batch = 7;
  }
  expect(validate_leaves(good_.program), "after leaf");
}
TEST_F(Broken, AnOperationLeftOutOfTheCount) {
  find(OpKind::backward_weight, 2).flops = 0;
  expect(validate_flops(good_.program), "FLOPs");
}

}  // namespace
}  // namespace muster
