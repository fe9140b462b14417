// Block: one piece of the model as the step program runs it: forward, backward_input,
// backward_weight, plus recompute. What it saves and costs is its BlockSpec
// (train/spec/block_spec.h).
//
// Contract:
//  - a block has no state and communicates with nobody; all memory comes with Ctx (views, frame) or
//  is scratch taken
//    from exec.arena and given back before return;
//  - forward on the same input gives the same bits, so a dropped frame may be recomputed (y null:
//  the last product is
//    skipped);
//  - backward_input reads x, dy and the frame, writes dx, and leaves in the frame what
//  backward_weight needs (it
//    overwrites q, k, v by their gradients and the MLP's pre-activations by theirs);
//  - backward_weight may run at any time after backward_input, as long as x, dy and the frame are
//  unchanged; it
//    writes (beta = 0) or adds to (beta = 1) the block's ranges of the gradient view and nothing
//    else;
//  - strict mode: y, dx and losses of a segment depend on that segment alone.
// Threads: one caller; kernels split work over exec.team.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "train/ops/exec.h"
#include "train/spec/block_spec.h"

namespace muster {

// The tokens of one micro-batch, flattened; a view.
struct BatchView {
  int64_t tokens = 0;
  const int32_t* ids = nullptr;        // [T], in [0, vocab_size)
  const int32_t* targets = nullptr;    // [T], negative = no loss at this token; null without a head
  const int32_t* positions = nullptr;  // [T], inside the document, in [0, context)
  // Document borders: segment s is tokens segments[s] … segments[s + 1] - 1; first 0, last T.
  std::span<const int32_t> segments;
};

template <class T>
struct Ctx {
  ops::Exec& exec;
  BatchView batch;

  const T* params = nullptr;  // the unit's flat buffer
  T* grads = nullptr;  // the unit's gradient leaf, same offsets; needed by backward_weight and the
                       // head's forward
  T beta = 0;          // 0: the leaf's ranges are overwritten; 1: added to

  const T* x = nullptr;   // [T, d] input; null for embedding
  T* y = nullptr;         // [T, d] output; null: not wanted (recompute), and for head
  const T* dy = nullptr;  // [T, d] gradient of y; null for head
  T* dx = nullptr;        // [T, d] gradient of x; must not be dy; null for embedding

  // The two parts of the frame: BlockSpec::costly_bytes, cheap_bytes; 64-byte aligned. Both null in
  // a forward pass that will have no backward pass: the block then uses scratch.
  std::byte* costly = nullptr;
  std::byte* cheap = nullptr;

  const T* rope = nullptr;  // [positions, c] cos | sin table of train/model/rope.h; null for gpt2

  // Head only. token_loss: [T] -log p(target), 0 where ignored. loss_scale: factor of the gradient
  // (1 / number of valid tokens of the step); 0 = evaluation, no gradient.
  T* token_loss = nullptr;
  T loss_scale = 0;
};

template <class T>
class Block {
 public:
  virtual ~Block() = default;
  const BlockSpec& spec() const { return spec_; }

  virtual void forward(Ctx<T>& ctx) const = 0;
  // Restores the cheap part of the frame from x and the costly part. Only before backward_input.
  virtual void recompute_cheap(Ctx<T>& ctx) const = 0;
  virtual void backward_input(Ctx<T>& ctx) const = 0;
  virtual void backward_weight(Ctx<T>& ctx) const = 0;

 protected:
  explicit Block(BlockSpec spec) : spec_(std::move(spec)) {}
  BlockSpec spec_;
};

// One block per entry of model.blocks, same order. The blocks copy what they need of `model`.
template <class T>
std::vector<std::unique_ptr<Block<T>>> make_blocks(const ModelSpec& model);

}  // namespace muster
