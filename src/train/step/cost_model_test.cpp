#include "train/step/cost_model.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "train/step/print.h"
#include "train/step/step_cases.h"

namespace muster {
namespace {

using namespace step_cases;  // NOLINT: the vocabulary of these tests
using std::chrono::milliseconds;

PlannedStep planned(int world) {
  return plan_step(spec(tiny_llama(2)), layout(4, 4, world, 0), {.least_bucket = Bytes{0}}).value();
}

// Only matrix products and attention take time: one FLOP a nanosecond.
MachineRates flops_alone() {
  MachineRates r;
  r.matmul_flops_per_s = r.attention_flops_per_s = 1e9;
  r.memory_bytes_per_s = 1e30;
  r.comm_bytes_per_s = 1e30;
  r.comm_latency = Nanos{0};
  return r;
}

TEST(CostModel, ComputeTimeIsFlopsOverRate) {
  const PlannedStep step = planned(1);
  const StepPrediction p = predict_step(step.program, flops_alone());
  EXPECT_EQ(p.total.count(), step.program.flops() + step.program.repeated_flops());
  EXPECT_EQ(p.exposed_comm.count(), 0);
}

TEST(CostModel, AttentionIsApartFromMatrixProducts) {
  const PlannedStep step = planned(1);
  int64_t attention = 0;
  for (const StepOp& op : step.program.ops) attention += kernel_flops(step.program, op).attention;
  const ModelConfig& c = step.program.model.config;
  const int64_t pairs = step.program.layout.work.pairs;
  // Forward and backward, 12 per (query element, visible key), and what backward repeats.
  EXPECT_EQ(attention, 4 * 2 * 12 * c.heads * c.head_dim * pairs + step.program.repeated_flops());
}

TEST(CostModel, ReducesHideBehindBackwardExceptTheLast) {
  const PlannedStep step = planned(2);
  MachineRates rates = flops_alone();
  rates.comm_latency = Nanos{1000};
  const StepPrediction p = predict_step(step.program, rates);
  // The first layer's and the root's come last: the embedding's backward pass has no FLOPs to hide
  // one behind.
  EXPECT_EQ(p.exposed_comm, Nanos{2000});
  EXPECT_EQ(p.comm, Nanos{5000});  // count, losses, two layers, root
  EXPECT_EQ(p.total, p.compute + p.exposed_comm);
}

TEST(CostModel, SlowMessagesQueueUp) {
  const PlannedStep step = planned(2);
  MachineRates rates = flops_alone();
  rates.comm_latency = milliseconds{100};
  const StepPrediction p = predict_step(step.program, rates);
  EXPECT_GT(p.exposed_comm, milliseconds{300});
  EXPECT_EQ(p.total, p.compute + p.exposed_comm);
}

TEST(CostModel, OneRankSendsNothing) {
  EXPECT_EQ(predict_step(planned(1).program, MachineRates{}).comm, Nanos{0});
}

// Exact count (docs/design/model.md): 6 N_mm + layers x 12 x heads x head_dim x mean visible keys,
// for whole sequences of 16: (16 + 1) / 2.
TEST(CostModel, FlopsPerTokenAreExact) {
  const PlannedStep step = planned(1);
  const ModelConfig& c = step.program.model.config;
  const int64_t layer = c.hidden_size * (c.heads + 2 * c.kv_heads) * c.head_dim +
                        c.heads * c.head_dim * c.hidden_size + 3 * c.hidden_size * c.mlp_size;
  const int64_t matmul = 2 * layer + c.vocab_size * c.hidden_size;
  EXPECT_EQ(step.program.model.matmul_parameter_count(), matmul);
  EXPECT_DOUBLE_EQ(
      flops_per_token(step.program),
      static_cast<double>(6 * matmul) + 2.0 * 12 * static_cast<double>(c.heads * c.head_dim) * 8.5);
}

TEST(Print, TableHasALineForEachOperationAndTheTotals) {
  const PlannedStep step = planned(2);
  const std::string table = step_table(step, predict_step(step.program, MachineRates{}));
  EXPECT_NE(table.find("rank 0 of 2 | micro-batches 4 (here 2) | V=4 rounds=1 | 32 tokens each"),
            std::string::npos)
      << table.substr(0, 300);
  for (const StepOp& op : step.program.ops)
    EXPECT_NE(table.find("\n" +
                         std::string(op.id < 10    ? "   "
                                     : op.id < 100 ? "  "
                                                   : " ") +
                         std::to_string(op.id) + " " + std::string(op_kind_name(op.kind))),
              std::string::npos)
        << op.id;
  EXPECT_NE(table.find("grad.layers.1.g0 += grad.layers.1.g1"), std::string::npos);
}

TEST(Print, JsonHoldsTheWholeProgram) {
  const PlannedStep step = planned(2);
  const StepPrediction prediction = predict_step(step.program, MachineRates{});
  const auto json = nlohmann::json::parse(step_json(step, prediction));
  ASSERT_EQ(json["operations"].size(), step.program.ops.size());
  EXPECT_EQ(json["buffers"].size(), step.program.buffers.size());
  int64_t flops = 0;
  for (const auto& op : json["operations"]) flops += op["flops"].get<int64_t>();
  EXPECT_EQ(flops, json["flops"]["rank_step"].get<int64_t>());
  EXPECT_EQ(json["memory"]["peak_bytes"].get<int64_t>(), step.memory.total());
  EXPECT_EQ(json["predicted"]["step_ns"].get<int64_t>(), prediction.total.count());
}

}  // namespace
}  // namespace muster
