#include "train/model/mlp_block.h"

#include <cstring>

#include "train/model/frame.h"

namespace muster {

template <class T>
struct MlpBlock<T>::Frame {
  T* pre;  // [T, 2 F] gate | up, gpt2 [T, F]; after backward_input its gradient
  T *act, *normed;
  NormState<T> norm;

  static Frame make(FrameCursor& costly, FrameCursor& cheap, const BlockSpec& spec,
                    int64_t tokens) {
    const ModelConfig& m = spec.config;
    const bool gpt2 = m.family == Family::gpt2;
    Frame f;
    f.pre = costly.take<T>(tokens * m.mlp_size * (gpt2 ? 1 : 2));
    f.act = cheap.take<T>(tokens * m.mlp_size);
    f.normed = cheap.take<T>(tokens * m.hidden_size);
    if (gpt2) f.norm.mean = cheap.take<T>(tokens);
    f.norm.rstd = cheap.take<T>(tokens);
    f.norm.gradient = cheap.take<T>((gpt2 ? 2 : 1) * m.hidden_size);
    return f;
  }
};

template <class T>
MlpBlock<T>::MlpBlock(const BlockSpec& spec, const ModelSpec& model) : Block<T>(spec) {
  const ModelConfig& m = spec.config;
  const auto at = [&](size_t i) { return model.params[spec.params[i]].offset; };
  if (gpt2()) {
    norm_ = Norm::of(spec, at(0), at(1));
    up_ = {m.hidden_size, m.mlp_size, WeightOrder::in_out};
    down_ = {m.mlp_size, m.hidden_size, WeightOrder::in_out};
    up_weight_ = at(2);
    up_bias_ = at(3);
    down_weight_ = at(4);
    down_bias_ = at(5);
  } else {
    norm_ = Norm::of(spec, at(0), 0);
    up_ = {m.hidden_size, 2 * m.mlp_size, WeightOrder::out_in};
    down_ = {m.mlp_size, m.hidden_size, WeightOrder::out_in};
    up_weight_ = at(1);
    down_weight_ = at(3);
  }
}

template <class T>
void MlpBlock<T>::activate(Ctx<T>& ctx, const Frame& f) const {
  const int64_t tokens = ctx.batch.tokens, F = this->spec_.config.mlp_size;
  if (gpt2())
    ops::gelu_forward<T>(ctx.exec, tokens, F, f.pre, f.act);
  else
    ops::swiglu_forward<T>(ctx.exec, tokens, F, f.pre, f.act);
}

template <class T>
void MlpBlock<T>::forward(Ctx<T>& ctx) const {
  const int64_t tokens = ctx.batch.tokens;
  Arena::Scope scope(ctx.exec.arena);
  const auto f = open_frame<Frame>(this->spec_, tokens, ctx.costly, ctx.cheap, ctx.exec.arena);
  norm_.forward(ctx.exec, tokens, ctx.params, ctx.x, f.normed, f.norm);
  up_.forward(ctx.exec, tokens, f.normed, ctx.params + up_weight_,
              up_bias_ < 0 ? nullptr : ctx.params + up_bias_, T{0}, f.pre);
  activate(ctx, f);
  if (ctx.y == nullptr) return;
  std::memcpy(ctx.y, ctx.x, static_cast<size_t>(tokens * down_.out) * sizeof(T));
  down_.forward(ctx.exec, tokens, f.act, ctx.params + down_weight_,
                down_bias_ < 0 ? nullptr : ctx.params + down_bias_, T{1}, ctx.y);
}

template <class T>
void MlpBlock<T>::recompute_cheap(Ctx<T>& ctx) const {
  MUSTER_CHECK(ctx.costly != nullptr && ctx.cheap != nullptr);
  const auto f =
      open_frame<Frame>(this->spec_, ctx.batch.tokens, ctx.costly, ctx.cheap, ctx.exec.arena);
  norm_.forward(ctx.exec, ctx.batch.tokens, ctx.params, ctx.x, f.normed, f.norm);
  activate(ctx, f);
}

template <class T>
void MlpBlock<T>::backward_input(Ctx<T>& ctx) const {
  MUSTER_CHECK(ctx.costly != nullptr && ctx.cheap != nullptr && ctx.dx != ctx.dy);
  const int64_t tokens = ctx.batch.tokens, F = this->spec_.config.mlp_size;
  Arena& arena = ctx.exec.arena;
  Arena::Scope scope(arena);
  const auto f = open_frame<Frame>(this->spec_, tokens, ctx.costly, ctx.cheap, arena);
  T* dact = arena.template take_array<T>(tokens * F);
  down_.backward_input(ctx.exec, tokens, ctx.dy, ctx.params + down_weight_, dact);
  if (gpt2())
    ops::gelu_backward<T>(ctx.exec, tokens, F, f.pre, dact, f.pre);
  else
    ops::swiglu_backward<T>(ctx.exec, tokens, F, f.pre, dact, f.pre);
  up_.backward_input(ctx.exec, tokens, f.pre, ctx.params + up_weight_, ctx.dx);
  norm_.backward(ctx.exec, tokens, ctx.params, ctx.dx, ctx.x, f.norm, ctx.dy, ctx.dx);
}

template <class T>
void MlpBlock<T>::backward_weight(Ctx<T>& ctx) const {
  MUSTER_CHECK(ctx.costly != nullptr && ctx.cheap != nullptr && ctx.grads != nullptr);
  const int64_t tokens = ctx.batch.tokens;
  const auto f = open_frame<Frame>(this->spec_, tokens, ctx.costly, ctx.cheap, ctx.exec.arena);
  down_.backward_weight(ctx.exec, tokens, f.act, ctx.dy, ctx.beta, ctx.grads + down_weight_,
                        down_bias_ < 0 ? nullptr : ctx.grads + down_bias_);
  up_.backward_weight(ctx.exec, tokens, f.normed, f.pre, ctx.beta, ctx.grads + up_weight_,
                      up_bias_ < 0 ? nullptr : ctx.grads + up_bias_);
  norm_.backward_weight(f.norm, ctx.beta, ctx.grads);
}

template class MlpBlock<float>;
template class MlpBlock<double>;

}  // namespace muster
