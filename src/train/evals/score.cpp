#include "train/evals/score.h"

#include <fmt/format.h>

#include <algorithm>

namespace muster {

namespace {

// Log-probabilities of ids[first + from … first + count) inside the window ids[first, first +
// count).
template <class T>
void score_window(const std::span<const int32_t> window, int64_t from, StraightPass<T>& pass,
                  ops::Exec& exec, std::vector<double>& logprobs) {
  const auto tokens = static_cast<int64_t>(window.size()) - 1;
  std::vector<int32_t> targets(window.begin() + 1, window.end()), positions(targets.size());
  for (size_t t = 0; t < positions.size(); ++t) positions[t] = static_cast<int32_t>(t);
  const int32_t segments[2] = {0, static_cast<int32_t>(tokens)};
  std::vector<T> losses(targets.size());
  pass.losses(exec, {tokens, window.data(), targets.data(), positions.data(), segments},
              losses.data());
  for (int64_t t = from; t < tokens; ++t)
    logprobs.push_back(-static_cast<double>(losses[static_cast<size_t>(t)]));
}

}  // namespace

template <class T>
int64_t score_arena_bytes(const Model<T>& model, int64_t tokens, int threads) {
  return StraightPass<T>::arena_bytes(model.spec(), std::min(tokens, model.config().context),
                                      threads);
}

template <class T>
Result<Score> score_tokens(const Model<T>& model, ops::Exec& exec, std::span<const int32_t> ids,
                           const Tokenizer* tokenizer, int64_t stride) {
  const ModelConfig& c = model.config();
  MUSTER_CHECK(stride >= 1 && stride <= c.context, stride, c.context);
  if (ids.size() < 2)
    return Error(
        Code::invalid_argument,
        fmt::format("a score needs at least 2 tokens, got {}: the first one is never predicted",
                    ids.size()));
  for (size_t i = 0; i < ids.size(); ++i)
    if (ids[i] < 0 || ids[i] >= c.vocab_size)
      return Error(
          Code::invalid_argument,
          fmt::format(
              "token {} has id {}, the model's vocabulary has {} rows; is this its tokenizer?", i,
              ids[i], c.vocab_size));

  const auto n = static_cast<int64_t>(ids.size());
  StraightPass<T> pass(model, std::min(n - 1, c.context));
  Score score;
  // A window reads at most `context` tokens and predicts the one after each.
  for (int64_t first = 0;; first += stride) {
    const int64_t last = std::min(n - 1, first + c.context);
    const int64_t scored = static_cast<int64_t>(score.logprobs.size());
    score_window(ids.subspan(static_cast<size_t>(first), static_cast<size_t>(last - first + 1)),
                 scored - first, pass, exec, score.logprobs);
    if (last == n - 1) break;
  }
  for (const double logprob : score.logprobs) score.total.nats -= logprob;
  score.total.tokens = n - 1;
  if (tokenizer != nullptr) {
    const std::vector<int32_t> bytes = text_bytes_by_id(*tokenizer);
    for (const int32_t id : ids.subspan(1))
      if (static_cast<size_t>(id) < bytes.size())
        score.total.bytes += bytes[static_cast<size_t>(id)];
  }
  return score;
}

template Result<Score> score_tokens(const Model<float>&, ops::Exec&, std::span<const int32_t>,
                                    const Tokenizer*, int64_t);
template Result<Score> score_tokens(const Model<double>&, ops::Exec&, std::span<const int32_t>,
                                    const Tokenizer*, int64_t);
template int64_t score_arena_bytes(const Model<float>&, int64_t, int);
template int64_t score_arena_bytes(const Model<double>&, int64_t, int);

}  // namespace muster
