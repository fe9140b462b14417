// Score: how likely a model finds a text. n ids give n - 1 log-probabilities (natural logarithm, of
// each id given those before it); loss is minus their mean; bits_per_byte = -sum / ln 2 / UTF-8
// bytes of the predicted tokens, where special tokens stand for no bytes. float32 or float64 by the
// model's type.
//
// Texts longer than the context are scored in windows: each window starts `stride` tokens after the
// one before it and scores only the tokens that no earlier window scored, so all but the first
// window's have at least context - stride tokens before them.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "text/tokenizer.h"
#include "train/model/model.h"
#include "train/model/straight_pass.h"

namespace muster {

struct Score {
  std::vector<double> logprobs;  // n - 1
  double loss = 0;
  std::optional<double>
      bits_per_byte;  // none without a tokenizer, or when the predicted tokens have no bytes
  int64_t bytes = 0;
};

// `tokenizer` may be null. `stride` in [1, context]; half the context is usual.
// Errors: invalid_argument for fewer than two ids, or an id outside the vocabulary.
template <class T>
Result<Score> score_tokens(const Model<T>& model, ops::Exec& exec, std::span<const int32_t> ids,
                           const Tokenizer* tokenizer, int64_t stride);

// Arena that score_tokens needs for `tokens` ids.
template <class T>
int64_t score_arena_bytes(const Model<T>& model, int64_t tokens, int threads);

// Sums over many texts, in their order: the held-out evaluation.
struct HeldOut {
  int64_t texts = 0, tokens = 0, bytes = 0;
  double negative_logprob = 0;  // nats

  void add(const Score& score);
  double loss() const { return tokens == 0 ? 0 : negative_logprob / static_cast<double>(tokens); }
  std::optional<double> bits_per_byte() const;
};

// -sum / ln 2 / bytes.
std::optional<double> bits_per_byte(double logprob_sum, int64_t bytes);
// UTF-8 bytes of ids[1 …]; special tokens and ids without a token count 0.
int64_t predicted_bytes(const Tokenizer& tokenizer, std::span<const int32_t> ids);

}  // namespace muster
