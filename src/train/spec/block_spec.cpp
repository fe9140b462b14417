// Saved tensors and costs of each kind of block, as train/model runs it.
#include "train/spec/block_spec.h"

#include <algorithm>

#include "base/check.h"

namespace muster {
namespace {

struct Sizes {
  int64_t T, d, H, G, c, F, V, qkv, q, up, E;
  bool gpt2;
  Sizes(const ModelConfig& m, Real real, int64_t tokens)
      : T(tokens),
        d(m.hidden_size),
        H(m.heads),
        G(m.kv_heads),
        c(m.head_dim),
        F(m.mlp_size),
        V(m.vocab_size),
        qkv((m.heads + 2 * m.kv_heads) * m.head_dim),
        q(m.heads * m.head_dim),
        up(m.family == Family::gpt2 ? m.mlp_size : 2 * m.mlp_size),
        E(real_bytes(real)),
        gpt2(m.family == Family::gpt2) {}
};

// Hands out aligned offsets in one part of a frame.
class Part {
 public:
  int64_t place(int64_t bytes) {
    const int64_t at = end_;
    end_ = (at + bytes + kFrameAlignment - 1) / kFrameAlignment * kFrameAlignment;
    return at;
  }

 private:
  int64_t end_ = 0;
};

int64_t part_bytes(const std::vector<Saved>& saved, SavedClass cls) {
  Part part;
  for (const Saved& s : saved)
    if (s.cls == cls) part.place(s.bytes());
  return part.place(0);
}

int64_t frame_slot(int64_t bytes) {
  Part part;
  part.place(bytes);
  return part.place(0);
}

Cost embedding_cost(const Sizes& s, const ModelConfig& m, BlockPhase phase) {
  Cost cost;
  if (phase == BlockPhase::forward) cost.bytes = s.T * s.d * s.E * (s.gpt2 ? 3 : 2) + 4 * s.T;
  if (phase == BlockPhase::backward_weight) {
    const int64_t rows = m.tie_embeddings ? s.T : s.V;  // tied: only rows in use are touched
    cost.bytes = (s.T * s.d + rows * s.d + (s.gpt2 ? s.T * s.d + m.context * s.d : 0)) * s.E;
  }
  return cost;
}

Cost attention_cost(const Sizes& s, const Workload& w, BlockPhase phase) {
  const int64_t in = s.qkv * s.d, out = s.q * s.d;  // elements of the two matrices
  const int64_t scores = 2 * s.H * s.c * w.pairs;   // one product over the visible pairs
  const int64_t heads = s.T * s.qkv * s.E;          // q, k and v, or their gradients
  const int64_t row = s.T * s.d * s.E, values = s.T * s.q * s.E;
  Cost cost;
  switch (phase) {
    case BlockPhase::forward:
      cost.flops = 2 * s.T * (in + out) + 2 * scores;
      cost.bytes = (in + out) * s.E + 4 * row + 4 * heads + 2 * values;
      cost.workspace = frame_slot(heads);
      break;
    case BlockPhase::recompute:
      cost.repeated_flops = 2 * s.T * in + 2 * scores;
      cost.bytes = in * s.E + 3 * row + 4 * heads + values;
      cost.workspace = frame_slot(heads);
      break;
    case BlockPhase::recompute_cheap:
      cost.bytes = 2 * row;
      break;
    case BlockPhase::backward_input:
      cost.flops = 2 * s.T * (in + out) + 4 * scores;
      cost.repeated_flops = scores;
      cost.bytes = (in + out) * s.E + 5 * row + 5 * heads + 3 * values;
      cost.workspace = frame_slot(values) + 3 * kFrameAlignment + heads;
      break;
    case BlockPhase::backward_weight:
      cost.flops = 2 * s.T * (in + out);
      cost.bytes = (in + out) * s.E + 2 * row + heads + values;
      break;
  }
  return cost;
}

Cost mlp_cost(const Sizes& s, BlockPhase phase) {
  const int64_t up = s.up * s.d, down = s.F * s.d;
  const int64_t row = s.T * s.d * s.E, wide = s.T * s.up * s.E, act = s.T * s.F * s.E;
  Cost cost;
  switch (phase) {
    case BlockPhase::forward:
      cost.flops = 2 * s.T * (up + down);
      cost.bytes = (up + down) * s.E + 4 * row + 2 * wide + 2 * act;
      break;
    case BlockPhase::recompute:
      cost.repeated_flops = 2 * s.T * up;
      cost.bytes = up * s.E + 3 * row + 2 * wide + act;
      break;
    case BlockPhase::recompute_cheap:
      cost.bytes = 2 * row + wide + act;
      break;
    case BlockPhase::backward_input:
      cost.flops = 2 * s.T * (up + down);
      cost.bytes = (up + down) * s.E + 5 * row + 3 * wide + 2 * act;
      cost.workspace = frame_slot(act);
      break;
    case BlockPhase::backward_weight:
      cost.flops = 2 * s.T * (up + down);
      cost.bytes = (up + down) * s.E + 2 * row + wide + act;
      break;
  }
  return cost;
}

Cost head_cost(const Sizes& s, BlockPhase phase) {
  const int64_t matrix = s.V * s.d, row = s.T * s.d * s.E;
  const int64_t chunks = (s.T + kHeadChunk - 1) / kHeadChunk;
  Cost cost;
  switch (phase) {
    case BlockPhase::forward:
      cost.flops = 3 * 2 * s.T * matrix;
      cost.bytes = chunks * 4 * matrix * s.E + 4 * row + 4 * s.T * s.V * s.E;
      cost.workspace = frame_slot(row) + frame_slot(std::min(s.T, kHeadChunk) * s.V * s.E);
      break;
    case BlockPhase::backward_input:
      cost.bytes = 3 * row;
      break;
    case BlockPhase::backward_weight:
      cost.bytes = 2 * s.d * s.E;
      break;
    default:
      break;
  }
  return cost;
}

}  // namespace

std::string_view block_kind_name(BlockKind kind) {
  switch (kind) {
    case BlockKind::embedding:
      return "embedding";
    case BlockKind::attention:
      return "attention";
    case BlockKind::mlp:
      return "mlp";
    case BlockKind::head:
      return "head";
  }
  return "?";
}

std::vector<Saved> BlockSpec::saved(int64_t tokens) const {
  const Sizes s(config, real, tokens);
  std::vector<Saved> list;
  Part costly_part, cheap_part;
  const auto add = [&](const char* label, Shape shape, SavedClass cls) {
    Saved saved{label, std::move(shape), real, cls, 0};
    if (cls == SavedClass::costly) saved.offset = costly_part.place(saved.bytes());
    if (cls == SavedClass::cheap) saved.offset = cheap_part.place(saved.bytes());
    list.push_back(std::move(saved));
  };
  // The norm's output, its statistics, and room for the gradients of its weight (and bias).
  const auto add_norm = [&](bool output) {
    if (output) add("normed", {s.T, s.d}, SavedClass::cheap);
    if (s.gpt2) add("mean", {s.T}, SavedClass::cheap);
    add("rstd", {s.T}, SavedClass::cheap);
    add("norm_gradient", {s.gpt2 ? 2 : 1, s.d}, SavedClass::cheap);
  };
  switch (kind) {
    case BlockKind::embedding:
      break;
    case BlockKind::attention:
      add("x", {s.T, s.d}, SavedClass::input);
      add("q", {s.H, s.T, s.c}, SavedClass::costly);
      add("k", {s.G, s.T, s.c}, SavedClass::costly);
      add("v", {s.G, s.T, s.c}, SavedClass::costly);
      add("o", {s.T, s.q}, SavedClass::costly);
      add("lse", {s.H, s.T}, SavedClass::costly);
      add_norm(true);
      break;
    case BlockKind::mlp:
      add("x", {s.T, s.d}, SavedClass::input);
      add("pre", {s.T, s.up}, SavedClass::costly);
      add("act", {s.T, s.F}, SavedClass::cheap);
      add_norm(true);
      break;
    case BlockKind::head:
      add("x", {s.T, s.d}, SavedClass::input);
      add("dnormed", {s.T, s.d}, SavedClass::costly);
      add_norm(false);
      break;
  }
  return list;
}

int64_t BlockSpec::costly_bytes(int64_t tokens) const {
  return part_bytes(saved(tokens), SavedClass::costly);
}

int64_t BlockSpec::cheap_bytes(int64_t tokens) const {
  return part_bytes(saved(tokens), SavedClass::cheap);
}

Cost BlockSpec::cost(const Workload& work, BlockPhase phase) const {
  MUSTER_CHECK(work.tokens >= 0 && work.pairs >= 0, work.tokens, work.pairs);
  const Sizes s(config, real, work.tokens);
  switch (kind) {
    case BlockKind::embedding:
      return embedding_cost(s, config, phase);
    case BlockKind::attention:
      return attention_cost(s, work, phase);
    case BlockKind::mlp:
      return mlp_cost(s, phase);
    case BlockKind::head:
      return head_cost(s, phase);
  }
  return {};
}

}  // namespace muster
