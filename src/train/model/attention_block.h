// AttentionBlock: y = x + out(attention(rope(qkv(norm(x))))), causal inside segments; grouped
// heads. One matrix product makes q, k and v. Decoding one token against a cache gives the bits of
// the full pass (strict mode).
#pragma once

#include "train/model/block.h"
#include "train/model/linear.h"
#include "train/model/norm.h"

namespace muster {

// Keys and values of one layer and one sequence; a view. [G, capacity, c] each; rows [0, length)
// are valid.
template <class T>
struct KvView {
  T* k = nullptr;
  T* v = nullptr;
  int64_t capacity = 0;
  int64_t length = 0;
};

template <class T>
class AttentionBlock final : public Block<T> {
 public:
  AttentionBlock(const BlockSpec& spec, const ModelSpec& model);

  void forward(Ctx<T>& ctx) const override;
  void recompute_cheap(Ctx<T>& ctx) const override;
  void backward_input(Ctx<T>& ctx) const override;
  void backward_weight(Ctx<T>& ctx) const override;

  // Forward of a whole segment that also fills cache rows [0, ctx.batch.tokens). Uses no frame.
  void prefill(Ctx<T>& ctx, KvView<T> cache) const;
  // Forward of one token at row cache.length, which must be below capacity; writes that row.
  // ctx.batch.tokens is 1.
  void decode(Ctx<T>& ctx, KvView<T> cache) const;

 private:
  struct Frame;
  // Norm and projections into the frame's q, k, v.
  void project(Ctx<T>& ctx, const Frame& frame) const;
  void run(Ctx<T>& ctx, const Frame& frame) const;
  void write_output(Ctx<T>& ctx, const T* o) const;

  Norm norm_;
  Linear qkv_, out_;
  int64_t qkv_weight_ = 0, qkv_bias_ = -1, out_weight_ = 0, out_bias_ = -1;  // offsets; -1: no bias
  T scale_;
};

}  // namespace muster
