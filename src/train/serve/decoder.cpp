#include "train/serve/decoder.h"

#include <fmt/format.h>

#include <new>

#include "base/units.h"
#include "train/model/head_block.h"

namespace muster {

template <class T>
Decoder<T>::Decoder(const Model<T>& model, ops::Exec& exec, int64_t capacity)
    : model_(model), exec_(exec), capacity_(capacity) {
  const ModelConfig& c = model.config();
  MUSTER_CHECK(capacity >= 1 && capacity <= c.context, capacity, c.context);
  keys_.resize(static_cast<size_t>(c.layers * c.kv_heads * capacity * c.head_dim));
  values_.resize(keys_.size());
  logits_.resize(static_cast<size_t>(c.vocab_size));
}

template <class T>
int64_t Decoder<T>::cache_bytes(const ModelConfig& c, int64_t capacity) {
  return 2 * c.layers * c.kv_heads * capacity * c.head_dim * static_cast<int64_t>(sizeof(T));
}

template <class T>
Result<Decoder<T>> Decoder<T>::make(const Model<T>& model, ops::Exec& exec, int64_t capacity) {
  try {
    return Decoder(model, exec, capacity);
  } catch (const std::bad_alloc&) {
    return Error(
        Code::no_space,
        fmt::format("no memory for the keys and values of {} tokens, {}; ask for fewer new "
                    "tokens or shorten the prompt",
                    capacity, format_bytes(Bytes{cache_bytes(model.config(), capacity)})));
  }
}

template <class T>
KvView<T> Decoder<T>::cache(int layer) {
  const ModelConfig& c = model_.config();
  const int64_t at = layer * c.kv_heads * capacity_ * c.head_dim;
  return {keys_.data() + at, values_.data() + at, capacity_, length_};
}

template <class T>
Ctx<T> Decoder<T>::context(const BatchView& batch, int block) const {
  Ctx<T> ctx{exec_, batch};
  ctx.params = model_.unit(model_.spec().blocks[static_cast<size_t>(block)].unit);
  ctx.rope = model_.rope();
  return ctx;
}

template <class T>
void Decoder<T>::run(std::span<const int32_t> ids) {
  const ModelConfig& c = model_.config();
  const auto tokens = static_cast<int64_t>(ids.size());
  const int32_t segments[2] = {0, static_cast<int32_t>(tokens)};
  positions_.resize(ids.size());
  for (size_t t = 0; t < ids.size(); ++t)
    positions_[t] = static_cast<int32_t>(length_ + static_cast<int64_t>(t));
  for (auto& rows : rows_) rows.resize(static_cast<size_t>(tokens * c.hidden_size));
  const BatchView batch{tokens, ids.data(), nullptr, positions_.data(), segments};
  const T* x = nullptr;
  for (int b = 0; b + 1 < model_.block_count(); ++b) {
    Ctx<T> ctx = context(batch, b);
    ctx.x = x;
    ctx.y = rows_[b % 2].data();
    const BlockSpec& spec = model_.spec().blocks[static_cast<size_t>(b)];
    if (spec.kind != BlockKind::attention)
      model_.block(b).forward(ctx);
    else if (length_ == 0)
      model_.attention(spec.layer).prefill(ctx, cache(spec.layer));
    else
      model_.attention(spec.layer).decode(ctx, cache(spec.layer));
    x = ctx.y;
  }
  // Only the last token's logits are wanted; rows do not depend on their neighbours.
  const BatchView last{1, ids.data() + tokens - 1, nullptr, positions_.data() + tokens - 1,
                       segments};
  Ctx<T> ctx = context(last, model_.block_count() - 1);
  ctx.x = x + (tokens - 1) * c.hidden_size;
  model_.head().logits(ctx, logits_.data());
  length_ += tokens;
}

template <class T>
Status Decoder<T>::check_id(int32_t id) const {
  if (id >= 0 && id < model_.config().vocab_size) return {};
  return Error(
      Code::invalid_argument,
      fmt::format("token id {} is outside the model's vocabulary of {}; is this its tokenizer?", id,
                  model_.config().vocab_size));
}

template <class T>
Status Decoder<T>::read(std::span<const int32_t> prompt) {
  MUSTER_CHECK(length_ == 0, length_);
  if (prompt.empty()) return Error(Code::invalid_argument, "the prompt has no tokens");
  if (static_cast<int64_t>(prompt.size()) > capacity_)
    return Error(Code::invalid_argument,
                 fmt::format("the prompt has {} tokens, the model takes {}; shorten it",
                             prompt.size(), capacity_));
  for (int32_t id : prompt) {
    MUSTER_TRY(check_id(id));
  }
  run(prompt);
  return {};
}

template <class T>
Status Decoder<T>::append(int32_t id) {
  MUSTER_CHECK(length_ > 0, "read a prompt first");
  if (length_ == capacity_)
    return Error(Code::no_space,
                 fmt::format("the sequence fills the {} tokens the model takes", capacity_));
  MUSTER_TRY(check_id(id));
  run(std::span(&id, 1));
  return {};
}

template class Decoder<float>;
template class Decoder<double>;

}  // namespace muster
