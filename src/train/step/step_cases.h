// Small models and layouts that the tests of this room share.
#pragma once

#include "train/step/plan_step.h"

namespace muster::step_cases {

inline ModelConfig tiny_llama(int64_t layers) {
  ModelConfig m;
  m.family = Family::llama;
  m.vocab_size = 96;
  m.hidden_size = 32;
  m.layers = layers;
  m.heads = 4;
  m.kv_heads = 2;
  m.head_dim = 8;
  m.mlp_size = 64;
  m.context = 64;
  return m;
}

inline ModelConfig tiny_gpt2(int64_t layers) {
  ModelConfig m = tiny_llama(layers);
  m.family = Family::gpt2;
  m.kv_heads = m.heads;
  m.norm_eps = 1e-5;
  m.tie_embeddings = true;
  return m;
}

inline ModelSpec spec(const ModelConfig& config) {
  return make_model_spec(config, Real::f32).value();
}

inline StepLayout layout(int64_t micro_batches, int64_t lanes, int world, int rank) {
  StepLayout l;
  l.micro_batches = micro_batches;
  l.lanes = lanes;
  l.world = world;
  l.rank = Rank{rank};
  l.work = Workload::causal(2, 16);
  return l;
}

// "forward layers.0.mlp g2", "reduce root": one operation as tests name it.
inline std::string text(const StepProgram& program, const StepOp& op) {
  std::string line(op_kind_name(op.kind));
  if (op.block >= 0) {
    line += " " + program.model.blocks[static_cast<size_t>(op.block)].name;
  } else if (op.kind == OpKind::update) {
    line += " " + program.model.units[static_cast<size_t>(op.unit)].name;
  } else if (op.bucket >= 0) {
    line += " " + program.buckets[static_cast<size_t>(op.bucket)].name;
  }
  if (op.micro_batch >= 0) line += " g" + std::to_string(op.micro_batch);
  return line;
}

inline std::vector<std::string> lines(const StepProgram& program) {
  std::vector<std::string> list;
  for (const StepOp& op : program.ops) {
    if (op.kind != OpKind::release) list.push_back(text(program, op));
  }
  return list;
}

}  // namespace muster::step_cases
