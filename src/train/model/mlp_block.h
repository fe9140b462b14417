// MlpBlock: y = x + down(act(up(norm(x)))). llama: one product makes gate and up, act = silu(gate)
// * up. gpt2: biases and tanh GELU.
#pragma once

#include "train/model/block.h"
#include "train/model/linear.h"
#include "train/model/norm.h"

namespace muster {

template <class T>
class MlpBlock final : public Block<T> {
 public:
  MlpBlock(const BlockSpec& spec, const ModelSpec& model);

  void forward(Ctx<T>& ctx) const override;
  void recompute_cheap(Ctx<T>& ctx) const override;
  void backward_input(Ctx<T>& ctx) const override;
  void backward_weight(Ctx<T>& ctx) const override;

 private:
  struct Frame;
  bool gpt2() const { return this->spec_.config.family == Family::gpt2; }
  void activate(Ctx<T>& ctx, const Frame& frame) const;

  Norm norm_;
  Linear up_, down_;
  int64_t up_weight_ = 0, up_bias_ = -1, down_weight_ = 0, down_bias_ = -1;  // offsets; -1: no bias
};

}  // namespace muster
