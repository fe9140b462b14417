#include "train/model/head_block.h"

#include <algorithm>

#include "train/model/frame.h"

namespace muster {

template <class T>
struct HeadBlock<T>::Frame {
  T* dnormed;
  NormState<T> norm;

  static Frame make(FrameCursor& costly, FrameCursor& cheap, const BlockSpec& spec,
                    int64_t tokens) {
    const ModelConfig& m = spec.config;
    const bool gpt2 = m.family == Family::gpt2;
    Frame f;
    f.dnormed = costly.take<T>(tokens * m.hidden_size);
    if (gpt2) f.norm.mean = cheap.take<T>(tokens);
    f.norm.rstd = cheap.take<T>(tokens);
    f.norm.gradient = cheap.take<T>((gpt2 ? 2 : 1) * m.hidden_size);
    return f;
  }
};

template <class T>
HeadBlock<T>::HeadBlock(const BlockSpec& spec, const ModelSpec& model) : Block<T>(spec) {
  const auto at = [&](size_t i) { return model.params[spec.params[i]].offset; };
  const bool gpt2 = spec.config.family == Family::gpt2;
  norm_ = gpt2 ? Norm::of(spec, at(0), at(1)) : Norm::of(spec, at(0), 0);
  weight_ = at(gpt2 ? 2 : 1);
  head_ = {spec.config.hidden_size, spec.config.vocab_size, WeightOrder::out_in};
}

template <class T>
void HeadBlock<T>::forward(Ctx<T>& ctx) const {
  const bool training = ctx.loss_scale != T{0};
  MUSTER_CHECK(ctx.token_loss != nullptr && ctx.batch.targets != nullptr);
  MUSTER_CHECK(!training ||
               (ctx.costly != nullptr && ctx.cheap != nullptr && ctx.grads != nullptr));
  const int64_t tokens = ctx.batch.tokens, d = head_.in, V = head_.out;
  Arena& arena = ctx.exec.arena;
  Arena::Scope scope(arena);
  const auto f = open_frame<Frame>(this->spec_, tokens, ctx.costly, ctx.cheap, arena);
  T* normed = arena.template take_array<T>(tokens * d);
  T* chunk_logits = arena.template take_array<T>(std::min(tokens, kHeadChunk) * V);
  norm_.forward(ctx.exec, tokens, ctx.params, ctx.x, normed, f.norm);
  for (int64_t begin = 0; begin < tokens; begin += kHeadChunk) {
    const int64_t count = std::min(kHeadChunk, tokens - begin);
    const T* rows = normed + begin * d;
    head_.forward(ctx.exec, count, rows, ctx.params + weight_, static_cast<const T*>(nullptr), T{0},
                  chunk_logits);
    ops::softmax_cross_entropy<T>(ctx.exec, count, V, V, chunk_logits, ctx.batch.targets + begin,
                                  ctx.loss_scale, ctx.token_loss + begin);
    if (!training) continue;
    head_.backward_input(ctx.exec, count, chunk_logits, ctx.params + weight_,
                         f.dnormed + begin * d);
    head_.backward_weight(ctx.exec, count, rows, chunk_logits, begin == 0 ? ctx.beta : T{1},
                          ctx.grads + weight_, static_cast<T*>(nullptr));
  }
}

template <class T>
void HeadBlock<T>::recompute_cheap(Ctx<T>& ctx) const {
  MUSTER_CHECK(ctx.costly != nullptr && ctx.cheap != nullptr);
  Arena::Scope scope(ctx.exec.arena);
  const auto f =
      open_frame<Frame>(this->spec_, ctx.batch.tokens, ctx.costly, ctx.cheap, ctx.exec.arena);
  T* normed = ctx.exec.arena.template take_array<T>(ctx.batch.tokens * head_.in);
  norm_.forward(ctx.exec, ctx.batch.tokens, ctx.params, ctx.x, normed, f.norm);
}

template <class T>
void HeadBlock<T>::backward_input(Ctx<T>& ctx) const {
  MUSTER_CHECK(ctx.costly != nullptr && ctx.cheap != nullptr && ctx.dx != nullptr);
  const auto f =
      open_frame<Frame>(this->spec_, ctx.batch.tokens, ctx.costly, ctx.cheap, ctx.exec.arena);
  norm_.backward(ctx.exec, ctx.batch.tokens, ctx.params, f.dnormed, ctx.x, f.norm,
                 static_cast<const T*>(nullptr), ctx.dx);
}

template <class T>
void HeadBlock<T>::backward_weight(Ctx<T>& ctx) const {
  MUSTER_CHECK(ctx.costly != nullptr && ctx.cheap != nullptr && ctx.grads != nullptr);
  const auto f =
      open_frame<Frame>(this->spec_, ctx.batch.tokens, ctx.costly, ctx.cheap, ctx.exec.arena);
  norm_.backward_weight(f.norm, ctx.beta, ctx.grads);
}

template <class T>
void HeadBlock<T>::logits(Ctx<T>& ctx, T* out) const {
  const int64_t tokens = ctx.batch.tokens;
  Arena& arena = ctx.exec.arena;
  Arena::Scope scope(arena);
  const auto f = open_frame<Frame>(this->spec_, tokens, nullptr, nullptr, arena);
  T* normed = arena.template take_array<T>(tokens * head_.in);
  norm_.forward(ctx.exec, tokens, ctx.params, ctx.x, normed, f.norm);
  head_.forward(ctx.exec, tokens, normed, ctx.params + weight_, static_cast<const T*>(nullptr),
                T{0}, out);
}

template class HeadBlock<float>;
template class HeadBlock<double>;

}  // namespace muster
