// EmbeddingBlock: y[t] = table[ids[t]] (+ learned position rows, gpt2). With a tied head its weight
// gradient adds to what the head's forward wrote into the leaf in the same micro-batch, whatever
// beta says.
#pragma once

#include "train/model/block.h"

namespace muster {

template <class T>
class EmbeddingBlock final : public Block<T> {
 public:
  EmbeddingBlock(const BlockSpec& spec, const ModelSpec& model);

  void forward(Ctx<T>& ctx) const override;
  void recompute_cheap(Ctx<T>&) const override {}
  void backward_input(Ctx<T>&) const override {}  // ids have no gradient
  void backward_weight(Ctx<T>& ctx) const override;

 private:
  int64_t table_ = 0, positions_ = -1;  // offsets; -1: none
};

}  // namespace muster
