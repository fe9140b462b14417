#include "train/model/straight_pass.h"

#include <fmt/format.h>

#include <algorithm>

#include "train/model/head_block.h"
#include "train/ops/kernels.h"

namespace muster {
namespace {

// vectors are aligned to 16 bytes only; frames want kFrameAlignment.
std::byte* aligned(std::vector<std::byte>& bytes) {
  const auto at = reinterpret_cast<uintptr_t>(bytes.data());
  return bytes.data() + (kFrameAlignment - at % kFrameAlignment) % kFrameAlignment;
}

}  // namespace

Status check_batch(const ModelConfig& config, const BatchView& batch) {
  const auto bad = [](std::string text) { return Error(Code::invalid_argument, std::move(text)); };
  if (batch.tokens < 1) return bad("batch: no tokens");
  const auto& s = batch.segments;
  if (s.size() < 2 || s.front() != 0 || s.back() != batch.tokens)
    return bad(fmt::format("batch: segment borders must run from 0 to {}", batch.tokens));
  for (size_t i = 1; i < s.size(); ++i)
    if (s[i] <= s[i - 1])
      return bad(fmt::format("batch: segment border {} after {} does not rise", s[i], s[i - 1]));
  for (int64_t t = 0; t < batch.tokens; ++t) {
    if (batch.ids[t] < 0 || batch.ids[t] >= config.vocab_size)
      return bad(fmt::format(
          "batch: token {} has id {}, the vocabulary has {} rows; is this the model's tokenizer?",
          t, batch.ids[t], config.vocab_size));
    if (batch.positions[t] < 0 || batch.positions[t] >= config.context)
      return bad(fmt::format("batch: token {} stands at position {}, the context is {}", t,
                             batch.positions[t], config.context));
    if (batch.targets != nullptr && batch.targets[t] >= config.vocab_size)
      return bad(fmt::format("batch: target {} of token {} is outside the vocabulary of {}",
                             batch.targets[t], t, config.vocab_size));
  }
  return {};
}

template <class T>
StraightPass<T>::StraightPass(const Model<T>& model, int64_t max_tokens)
    : model_(model), max_tokens_(max_tokens) {
  for (auto& rows : rows_)
    rows.resize(static_cast<size_t>(max_tokens * model.config().hidden_size));
}

template <class T>
int64_t StraightPass<T>::arena_bytes(const ModelSpec& spec, int64_t max_tokens, int threads) {
  int64_t blocks = 0;
  for (const BlockSpec& b : spec.blocks) {
    const int64_t frame = b.costly_bytes(max_tokens) + b.cheap_bytes(max_tokens);
    for (BlockPhase phase :
         {BlockPhase::forward, BlockPhase::backward_input, BlockPhase::backward_weight})
      blocks = std::max(blocks, b.cost({max_tokens, 0}, phase).workspace + frame);
  }
  const ModelConfig& c = spec.config;
  const int64_t widest =
      std::max({c.hidden_size, c.mlp_size, (c.heads + 2 * c.kv_heads) * c.head_dim});
  const auto kernels = static_cast<int64_t>(ops::scratch_bytes<T>(
      {threads, max_tokens, max_tokens, c.heads, c.kv_heads, c.head_dim, widest, /*largest=*/0}));
  constexpr int64_t kSlack = 64 << 10;  // roundings up to 64 bytes
  return blocks + kernels + kSlack;
}

template <class T>
Ctx<T> StraightPass<T>::context(ops::Exec& exec, const BatchView& batch, int block) const {
  Ctx<T> ctx{exec, batch};
  ctx.params = model_.unit(model_.spec().blocks[static_cast<size_t>(block)].unit);
  ctx.rope = model_.rope();
  return ctx;
}

template <class T>
void StraightPass<T>::run_body(ops::Exec& exec, const BatchView& batch) {
  MUSTER_CHECK(batch.tokens >= 1 && batch.tokens <= max_tokens_, batch.tokens, max_tokens_);
  last_ = nullptr;
  for (int b = 0; b + 1 < model_.block_count(); ++b) {
    Ctx<T> ctx = context(exec, batch, b);
    ctx.x = last_;
    ctx.y = rows_[b % 2].data();
    model_.block(b).forward(ctx);
    last_ = ctx.y;
  }
}

template <class T>
void StraightPass<T>::losses(ops::Exec& exec, const BatchView& batch, T* token_loss) {
  run_body(exec, batch);
  Ctx<T> ctx = context(exec, batch, model_.block_count() - 1);
  ctx.x = last_;
  ctx.token_loss = token_loss;
  model_.head().forward(ctx);
}

template <class T>
void StraightPass<T>::logits(ops::Exec& exec, const BatchView& batch, T* out) {
  run_body(exec, batch);
  Ctx<T> ctx = context(exec, batch, model_.block_count() - 1);
  ctx.x = last_;
  model_.head().logits(ctx, out);
}

template <class T>
void StraightPass<T>::open_training() {
  if (!activations_.empty()) return;
  for (const BlockSpec& b : model_.spec().blocks) {
    activations_.emplace_back(b.kind == BlockKind::head
                                  ? 0
                                  : static_cast<size_t>(max_tokens_ * model_.config().hidden_size));
    costly_.emplace_back(static_cast<size_t>(b.costly_bytes(max_tokens_) + kFrameAlignment));
    cheap_.emplace_back(static_cast<size_t>(b.cheap_bytes(max_tokens_) + kFrameAlignment));
  }
}

template <class T>
void StraightPass<T>::gradients(ops::Exec& exec, const BatchView& batch, T loss_scale, T beta,
                                const std::vector<T*>& grads, T* token_loss) {
  MUSTER_CHECK(batch.tokens >= 1 && batch.tokens <= max_tokens_, batch.tokens, max_tokens_);
  MUSTER_CHECK(grads.size() == model_.spec().units.size() && loss_scale != T{0}, grads.size());
  open_training();
  const int count = model_.block_count();
  const auto full_context = [&](int b) {
    const auto i = static_cast<size_t>(b);
    Ctx<T> ctx = context(exec, batch, b);
    ctx.grads = grads[static_cast<size_t>(model_.spec().blocks[i].unit)];
    ctx.beta = beta;
    ctx.x = b == 0 ? nullptr : activations_[i - 1].data();
    ctx.costly = aligned(costly_[i]);
    ctx.cheap = aligned(cheap_[i]);
    ctx.loss_scale = loss_scale;
    ctx.token_loss = token_loss;
    return ctx;
  };
  for (int b = 0; b < count; ++b) {
    Ctx<T> ctx = full_context(b);
    if (b + 1 < count) ctx.y = activations_[static_cast<size_t>(b)].data();
    model_.block(b).forward(ctx);
  }
  const T* dy = nullptr;
  for (int b = count - 1; b >= 0; --b) {
    Ctx<T> ctx = full_context(b);
    ctx.dy = dy;
    ctx.dx = b == 0 ? nullptr : rows_[b % 2].data();
    model_.block(b).backward_input(ctx);
    model_.block(b).backward_weight(ctx);
    dy = ctx.dx;
  }
}

template class StraightPass<float>;
template class StraightPass<double>;

}  // namespace muster
