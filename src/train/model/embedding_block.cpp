#include "train/model/embedding_block.h"

#include "train/ops/kernels.h"

namespace muster {

template <class T>
EmbeddingBlock<T>::EmbeddingBlock(const BlockSpec& spec, const ModelSpec& model) : Block<T>(spec) {
  table_ = model.params[spec.params[0]].offset;
  if (spec.params.size() > 1) positions_ = model.params[spec.params[1]].offset;
}

template <class T>
void EmbeddingBlock<T>::forward(Ctx<T>& ctx) const {
  ops::embedding_forward<T>(ctx.exec, ctx.batch.tokens, this->spec_.config.hidden_size,
                            ctx.batch.ids, ctx.params + table_, ctx.batch.positions,
                            positions_ < 0 ? nullptr : ctx.params + positions_, ctx.y);
}

template <class T>
void EmbeddingBlock<T>::backward_weight(Ctx<T>& ctx) const {
  MUSTER_CHECK(ctx.grads != nullptr);
  const ModelConfig& m = this->spec_.config;
  ops::embedding_backward<T>(ctx.exec, ctx.batch.tokens, m.hidden_size, m.vocab_size, ctx.batch.ids,
                             ctx.dy, m.tie_embeddings ? T{1} : ctx.beta, ctx.grads + table_);
  if (positions_ >= 0)
    ops::embedding_backward<T>(ctx.exec, ctx.batch.tokens, m.hidden_size, m.context,
                               ctx.batch.positions, ctx.dy, ctx.beta, ctx.grads + positions_);
}

template class EmbeddingBlock<float>;
template class EmbeddingBlock<double>;

}  // namespace muster
