// What a model is made of, without tensors: parameters in flat unit buffers, blocks in the order of
// the forward pass, what each block saves for its backward pass and what each phase costs. The
// memory planner, the cost model, the optimiser, the checkpoint and the blocks themselves
// (train/model) all read these tables; nobody keeps a second copy.
//
// A *unit* is what is reduced, clipped and updated together: unit 0 is root (embedding, positions,
// final norm, head), unit 1 + i is layer i. It owns one flat buffer of elements; a parameter is a
// range of it. The first tensor of a fused group (q, k, v; gate, up) starts on a multiple of
// kUnitAlignment elements and the others follow without a gap, so that one matrix product serves
// the group; gaps hold zeros in parameters, gradients and moments.
//
// A *block* reads its input x [T, d], writes its output [T, d] and leaves its saved tensors in a
// *frame*. Blocks:
//   embedding  root     ids -> x (+ learned positions)
//   attention  layer i  y = x + out(attention(rope(qkv(norm(x)))))
//   mlp        layer i  y = x + down(act(up(norm(x))))
//   head       root     losses of the tokens; see BlockKind::head
// Pure functions and values; any thread.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "train/spec/model_config.h"

namespace muster {

// The type all of a model's numbers have: parameters, activations, gradients, moments.
enum class Real : uint8_t { f32, f64 };
constexpr int64_t real_bytes(Real real) {
  return real == Real::f32 ? 4 : 8;
}

using Shape = std::vector<int64_t>;
int64_t element_count(const Shape& shape);

inline constexpr int64_t kUnitAlignment = 16;   // elements: 64 bytes of float32
inline constexpr int64_t kFrameAlignment = 64;  // bytes, of every saved tensor
inline constexpr int64_t kHeadChunk = 256;      // tokens whose logits exist at one time in the head

enum class InitKind : uint8_t { zeros, ones, normal };
struct Init {
  InitKind kind = InitKind::zeros;
  double std = 0;  // normal only
  bool operator==(const Init&) const = default;
};

struct Param {
  std::string name;  // Hugging Face's name
  Shape shape;       // Hugging Face's shape: llama matrices [out, in], gpt2's [in, out]
  Init init;
  bool weight_decay = false;  // matrices and embeddings yes, norms and biases no
  int unit = 0;
  int64_t offset = 0;  // elements from the start of the unit's buffer
  int64_t count() const { return element_count(shape); }
};

// input:  the block's own input tensor. It is *not* in the frame: the caller keeps it until
// backward_weight is done. cheap:  elementwise results, in the frame's cheap part;
// recompute_cheap() restores them from input and costly ones. costly: results of matrix products
// and attention, in the frame's costly part; only a forward re-run restores them.
enum class SavedClass : uint8_t { input, cheap, costly };
struct Saved {
  std::string name;
  Shape shape;
  Real dtype;
  SavedClass cls;
  int64_t offset = 0;  // bytes in its part of the frame (0 for input)
  int64_t bytes() const { return element_count(shape) * real_bytes(dtype); }
};

enum class BlockPhase : uint8_t {
  forward,
  recompute_cheap,
  recompute,
  backward_input,
  backward_weight
};

// Keys seen by all tokens of one causal sequence, each token's own included: length (length + 1)
// / 2. With window > 0 a token sees at most `window` keys: window length - window (window - 1) / 2
// once length >= window.
int64_t visible_pairs(int64_t length, int64_t window);

// What a micro-batch asks of the model. pairs = sum over its tokens of the keys each one sees.
struct Workload {
  int64_t tokens = 0;
  int64_t pairs = 0;
  // `sequences` whole causal sequences of `length` tokens.
  static Workload causal(int64_t sequences, int64_t length);
};

// The FLOP count that the MFU label "exact" stands for, forward and backward: 6 per matmul
// parameter and token plus 12 per (query head element, visible key). head_pairs = sum over layers
// of heads * head_dim * visible pairs.
constexpr int64_t training_flops(int64_t matmul_parameters, int64_t tokens, int64_t head_pairs) {
  return 6 * matmul_parameters * tokens + 12 * head_pairs;
}

struct Cost {
  // 2 m n k per matrix product, scores and weighted values counted over visible pairs only; no
  // elementwise work.
  int64_t flops = 0;
  // Done again and so not part of the model's count: score products inside attention's backward
  // pass, recomputation.
  int64_t repeated_flops = 0;
  int64_t bytes = 0;      // tensors read and written once each, parameters and gradients included
  int64_t workspace = 0;  // scratch bytes the block takes from the arena, without the kernels' own
};

enum class BlockKind : uint8_t {
  embedding,
  attention,
  mlp,
  // Training: forward computes the token losses and, because logits exist only kHeadChunk tokens at
  // a time, in the same pass the gradient of the norm's output (kept in the frame) and the head's
  // weight gradient (written to the gradient view: the root unit's leaf must exist from the head's
  // forward on). backward_input goes through the norm, backward_weight adds the norm's own
  // gradients. Evaluation (loss scale 0, no frame): losses only.
  head,
};
std::string_view block_kind_name(BlockKind kind);

struct BlockSpec {
  BlockKind kind = BlockKind::embedding;
  std::string name;  // "embedding", "layers.3.attention", "layers.3.mlp", "head"
  int unit = 0;      // whose buffers it reads and whose gradient it writes
  int layer = -1;    // -1 for embedding and head
  ModelConfig config;
  Real real = Real::f32;
  std::vector<int> params;  // indices into ModelSpec::params, in storage order

  // Input first, then the costly part, then the cheap part. `tokens` of one micro-batch.
  std::vector<Saved> saved(int64_t tokens) const;
  int64_t costly_bytes(int64_t tokens) const;  // size of the frame's costly part
  int64_t cheap_bytes(int64_t tokens) const;   // size of the frame's cheap part
  // attention and mlp; the embedding has no frame, and the head's forward writes gradients, so
  // neither runs again.
  bool recomputable() const { return kind == BlockKind::attention || kind == BlockKind::mlp; }
  // The phase as train/model runs it. recompute = forward without the last product (no output is
  // written). The head's forward is the training one: logits, their gradient and both products of
  // it.
  Cost cost(const Workload& work, BlockPhase phase) const;
};

struct UnitSpec {
  std::string name;         // "root", "layers.3"
  int64_t elements = 0;     // of the flat buffer, gaps included; a multiple of kUnitAlignment
  std::vector<int> params;  // indices into ModelSpec::params, by offset
  std::vector<int> blocks;  // indices into ModelSpec::blocks, in forward order
};

struct ModelSpec {
  ModelConfig config;
  Real real = Real::f32;
  std::vector<Param> params;      // unit by unit, by offset
  std::vector<UnitSpec> units;    // root, then the layers
  std::vector<BlockSpec> blocks;  // forward order: embedding, layers, head

  int64_t parameter_count() const;  // exact, tied tensors once
  int64_t matmul_parameter_count()
      const;  // N_mm of docs/design/model.md: head in, embeddings, norms, biases out
  int64_t buffer_elements() const;                 // all units, gaps included
  const Param* find(std::string_view name) const;  // null if there is none
  // With a tied head the embedding's backward_weight adds (beta = 1 always) to what the head's
  // forward wrote, so it must come after it in each micro-batch.
  bool tied() const { return config.tie_embeddings; }

  // training_flops() above for this model: an integer over the whole workload; divide by tokens for
  // the rate a token.
  int64_t training_flops(const Workload& work) const;
};

// Errors: those of validate().
Result<ModelSpec> make_model_spec(const ModelConfig& config, Real real);

}  // namespace muster
