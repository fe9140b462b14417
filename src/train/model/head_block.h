// HeadBlock: final norm, logits and cross-entropy, kHeadChunk tokens at a time, so that [T, V]
// never exists. What its forward pass leaves where is described at BlockKind::head.
#pragma once

#include "train/model/block.h"
#include "train/model/linear.h"
#include "train/model/norm.h"

namespace muster {

template <class T>
class HeadBlock final : public Block<T> {
 public:
  HeadBlock(const BlockSpec& spec, const ModelSpec& model);

  void forward(Ctx<T>& ctx) const override;
  void recompute_cheap(Ctx<T>& ctx) const override;
  void backward_input(Ctx<T>& ctx) const override;
  void backward_weight(Ctx<T>& ctx) const override;

  // logits [T, V] of all rows of ctx.x; for sampling and tests.
  void logits(Ctx<T>& ctx, T* out) const;

 private:
  struct Frame;
  Norm norm_;
  Linear head_;
  int64_t weight_ = 0;  // offset; the embedding's when tied
};

}  // namespace muster
