// The whole model on one micro-batch, block after block: the shortest correct way to run it,
// without the step program. Evaluation and scoring use it, and it is the reference that an executed
// program must equal bit for bit. Memory for activations and frames is allocated once, for at most
// `max_tokens`.
//
// One caller at a time. exec.arena must hold arena_bytes().
#pragma once

#include <vector>

#include "train/model/model.h"

namespace muster {

// Errors: invalid_argument: an id outside the vocabulary, a position outside the context, borders
// that do not rise from 0 to tokens. For batches that come from outside.
Status check_batch(const ModelConfig& config, const BatchView& batch);

template <class T>
class StraightPass {
 public:
  // `model` must outlive the pass.
  StraightPass(const Model<T>& model, int64_t max_tokens);

  // Size of exec.arena that suffices for `max_tokens` and a team of `threads`, with or without
  // gradients: what the blocks take for themselves and the largest scratch of a kernel.
  static int64_t arena_bytes(const ModelSpec& spec, int64_t max_tokens, int threads);

  // token_loss [T]: -log p(target), 0 where the target is negative. No gradients, no frames.
  void losses(ops::Exec& exec, const BatchView& batch, T* token_loss);
  // out: [T, V].
  void logits(ops::Exec& exec, const BatchView& batch, T* out);
  // Losses and gradients of loss_scale * sum of losses. grads: one buffer per unit; beta 0 writes,
  // 1 adds.
  void gradients(ops::Exec& exec, const BatchView& batch, T loss_scale, T beta,
                 const std::vector<T*>& grads, T* token_loss);

 private:
  Ctx<T> context(ops::Exec& exec, const BatchView& batch, int block) const;
  void run_body(ops::Exec& exec,
                const BatchView& batch);  // all but the head; the output is in last_
  void open_training();

  const Model<T>& model_;
  int64_t max_tokens_;
  std::vector<T> rows_[2];  // activations that alternate where no backward pass follows
  const T* last_ = nullptr;
  // Training memory, made at the first gradients().
  std::vector<std::vector<T>> activations_;
  std::vector<std::vector<std::byte>> costly_, cheap_;
};

}  // namespace muster
