#include "train/model/attention_block.h"

#include <cmath>
#include <cstring>

#include "train/model/frame.h"

namespace muster {

template <class T>
struct AttentionBlock<T>::Frame {
  T *q, *k, *v, *o, *lse, *normed;
  NormState<T> norm;

  static Frame make(FrameCursor& costly, FrameCursor& cheap, const BlockSpec& spec,
                    int64_t tokens) {
    const ModelConfig& m = spec.config;
    Frame f;
    f.q = costly.take<T>(m.heads * tokens * m.head_dim);
    f.k = costly.take<T>(m.kv_heads * tokens * m.head_dim);
    f.v = costly.take<T>(m.kv_heads * tokens * m.head_dim);
    f.o = costly.take<T>(tokens * m.heads * m.head_dim);
    f.lse = costly.take<T>(m.heads * tokens);
    f.normed = cheap.take<T>(tokens * m.hidden_size);
    if (m.family == Family::gpt2) f.norm.mean = cheap.take<T>(tokens);
    f.norm.rstd = cheap.take<T>(tokens);
    f.norm.gradient = cheap.take<T>((m.family == Family::gpt2 ? 2 : 1) * m.hidden_size);
    return f;
  }

  // After backward_input: the gradient of the merged projection, [T, (H + 2 G) c], over q, k and v.
  T* dqkv() const { return q; }
};

template <class T>
AttentionBlock<T>::AttentionBlock(const BlockSpec& spec, const ModelSpec& model) : Block<T>(spec) {
  const ModelConfig& m = spec.config;
  const auto at = [&](size_t i) { return model.params[spec.params[i]].offset; };
  const int64_t q = m.heads * m.head_dim, all = q + 2 * m.kv_heads * m.head_dim;
  if (m.family == Family::gpt2) {
    norm_ = Norm::of(spec, at(0), at(1));
    qkv_ = {m.hidden_size, all, WeightOrder::in_out};
    out_ = {q, m.hidden_size, WeightOrder::in_out};
    qkv_weight_ = at(2);
    qkv_bias_ = at(3);
    out_weight_ = at(4);
    out_bias_ = at(5);
  } else {
    norm_ = Norm::of(spec, at(0), 0);
    qkv_ = {m.hidden_size, all, WeightOrder::out_in};
    out_ = {q, m.hidden_size, WeightOrder::out_in};
    qkv_weight_ = at(1);
    out_weight_ = at(4);
  }
  scale_ = T{1} / std::sqrt(static_cast<T>(m.head_dim));
}

template <class T>
void AttentionBlock<T>::project(Ctx<T>& ctx, const Frame& f) const {
  const ModelConfig& m = this->spec_.config;
  const int64_t tokens = ctx.batch.tokens;
  norm_.forward(ctx.exec, tokens, ctx.params, ctx.x, f.normed, f.norm);
  Arena::Scope scope(ctx.exec.arena);
  T* merged = ctx.exec.arena.template take_array<T>(tokens * qkv_.out);
  qkv_.forward(ctx.exec, tokens, f.normed, ctx.params + qkv_weight_,
               qkv_bias_ < 0 ? nullptr : ctx.params + qkv_bias_, T{0}, merged);
  ops::rope_split_forward<T>(ctx.exec, tokens, m.heads, m.kv_heads, m.head_dim, merged,
                             ctx.batch.positions, ctx.rope, f.q, f.k, f.v);
}

template <class T>
void AttentionBlock<T>::write_output(Ctx<T>& ctx, const T* o) const {
  if (ctx.y == nullptr) return;
  const int64_t tokens = ctx.batch.tokens;
  std::memcpy(ctx.y, ctx.x, static_cast<size_t>(tokens * out_.out) * sizeof(T));
  out_.forward(ctx.exec, tokens, o, ctx.params + out_weight_,
               out_bias_ < 0 ? nullptr : ctx.params + out_bias_, T{1}, ctx.y);
}

template <class T>
void AttentionBlock<T>::run(Ctx<T>& ctx, const Frame& f) const {
  const ModelConfig& m = this->spec_.config;
  project(ctx, f);
  ops::attention_forward<T>(ctx.exec, ctx.batch.segments, ctx.batch.tokens, m.heads, m.kv_heads,
                            m.head_dim, scale_, f.q, f.k, f.v, f.o, f.lse);
  write_output(ctx, f.o);
}

template <class T>
void AttentionBlock<T>::forward(Ctx<T>& ctx) const {
  Arena::Scope scope(ctx.exec.arena);
  run(ctx, open_frame<Frame>(this->spec_, ctx.batch.tokens, ctx.costly, ctx.cheap, ctx.exec.arena));
}

template <class T>
void AttentionBlock<T>::recompute_cheap(Ctx<T>& ctx) const {
  MUSTER_CHECK(ctx.costly != nullptr && ctx.cheap != nullptr);
  const auto f =
      open_frame<Frame>(this->spec_, ctx.batch.tokens, ctx.costly, ctx.cheap, ctx.exec.arena);
  norm_.forward(ctx.exec, ctx.batch.tokens, ctx.params, ctx.x, f.normed, f.norm);
}

template <class T>
void AttentionBlock<T>::backward_input(Ctx<T>& ctx) const {
  MUSTER_CHECK(ctx.costly != nullptr && ctx.cheap != nullptr && ctx.dx != ctx.dy);
  const ModelConfig& m = this->spec_.config;
  const int64_t tokens = ctx.batch.tokens, c = m.head_dim;
  Arena& arena = ctx.exec.arena;
  Arena::Scope scope(arena);
  const auto f = open_frame<Frame>(this->spec_, tokens, ctx.costly, ctx.cheap, arena);
  T* d_o = arena.template take_array<T>(tokens * out_.in);
  T* dq = arena.template take_array<T>(tokens * m.heads * c);
  T* dk = arena.template take_array<T>(tokens * m.kv_heads * c);
  T* dv = arena.template take_array<T>(tokens * m.kv_heads * c);
  out_.backward_input(ctx.exec, tokens, ctx.dy, ctx.params + out_weight_, d_o);
  ops::attention_backward<T>(ctx.exec, ctx.batch.segments, tokens, m.heads, m.kv_heads, c, scale_,
                             f.q, f.k, f.v, f.o, f.lse, d_o, dq, dk, dv);
  ops::rope_split_backward<T>(ctx.exec, tokens, m.heads, m.kv_heads, c, dq, dk, dv,
                              ctx.batch.positions, ctx.rope, f.dqkv());
  qkv_.backward_input(ctx.exec, tokens, f.dqkv(), ctx.params + qkv_weight_, ctx.dx);
  norm_.backward(ctx.exec, tokens, ctx.params, ctx.dx, ctx.x, f.norm, ctx.dy, ctx.dx);
}

template <class T>
void AttentionBlock<T>::backward_weight(Ctx<T>& ctx) const {
  MUSTER_CHECK(ctx.costly != nullptr && ctx.cheap != nullptr && ctx.grads != nullptr);
  const int64_t tokens = ctx.batch.tokens;
  const auto f = open_frame<Frame>(this->spec_, tokens, ctx.costly, ctx.cheap, ctx.exec.arena);
  out_.backward_weight(ctx.exec, tokens, f.o, ctx.dy, ctx.beta, ctx.grads + out_weight_,
                       out_bias_ < 0 ? nullptr : ctx.grads + out_bias_);
  qkv_.backward_weight(ctx.exec, tokens, f.normed, f.dqkv(), ctx.beta, ctx.grads + qkv_weight_,
                       qkv_bias_ < 0 ? nullptr : ctx.grads + qkv_bias_);
  norm_.backward_weight(f.norm, ctx.beta, ctx.grads);
}

template <class T>
void AttentionBlock<T>::prefill(Ctx<T>& ctx, KvView<T> cache) const {
  const ModelConfig& m = this->spec_.config;
  const int64_t tokens = ctx.batch.tokens, c = m.head_dim;
  MUSTER_CHECK(tokens <= cache.capacity, tokens, cache.capacity);
  Arena::Scope scope(ctx.exec.arena);
  const auto f = open_frame<Frame>(this->spec_, tokens, nullptr, nullptr, ctx.exec.arena);
  run(ctx, f);
  for (int64_t g = 0; g < m.kv_heads; ++g) {
    std::memcpy(cache.k + g * cache.capacity * c, f.k + g * tokens * c,
                static_cast<size_t>(tokens * c) * sizeof(T));
    std::memcpy(cache.v + g * cache.capacity * c, f.v + g * tokens * c,
                static_cast<size_t>(tokens * c) * sizeof(T));
  }
}

template <class T>
void AttentionBlock<T>::decode(Ctx<T>& ctx, KvView<T> cache) const {
  const ModelConfig& m = this->spec_.config;
  const int64_t c = m.head_dim;
  MUSTER_CHECK(ctx.batch.tokens == 1 && cache.length < cache.capacity, ctx.batch.tokens,
               cache.length);
  Arena::Scope scope(ctx.exec.arena);
  const auto f = open_frame<Frame>(this->spec_, 1, nullptr, nullptr, ctx.exec.arena);
  project(ctx, f);  // with one token, k and v are [G, c]
  for (int64_t g = 0; g < m.kv_heads; ++g) {
    const int64_t row = (g * cache.capacity + cache.length) * c;
    std::memcpy(cache.k + row, f.k + g * c, static_cast<size_t>(c) * sizeof(T));
    std::memcpy(cache.v + row, f.v + g * c, static_cast<size_t>(c) * sizeof(T));
  }
  ops::attention_decode<T>(ctx.exec, cache.length + 1, cache.capacity, m.heads, m.kv_heads, c,
                           scale_, f.q, cache.k, cache.v, f.o);
  write_output(ctx, f.o);
}

template class AttentionBlock<float>;
template class AttentionBlock<double>;

}  // namespace muster
