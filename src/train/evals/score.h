// Score: how likely a model finds a text. n ids give n - 1 log-probabilities (natural logarithm, of
// each id given those before it) and their sum as a loss. float32 or float64 by the model's type.
//
// Texts longer than the context are scored in windows: each window starts `stride` tokens after the
// one before it and scores only the tokens that no earlier window scored, so all but the first
// window's have at least context - stride tokens before them.
#pragma once

#include <span>
#include <vector>

#include "train/evals/text_loss.h"
#include "train/model/model.h"
#include "train/model/straight_pass.h"

namespace muster {

struct Score {
  std::vector<double> logprobs;  // n - 1
  TextLoss total;                // of them; bytes only with a tokenizer
};

// `tokenizer` may be null. `stride` in [1, context]; half the context is usual.
// Errors: invalid_argument for fewer than two ids, or an id outside the vocabulary.
template <class T>
Result<Score> score_tokens(const Model<T>& model, ops::Exec& exec, std::span<const int32_t> ids,
                           const Tokenizer* tokenizer, int64_t stride);

// Arena that score_tokens needs for `tokens` ids.
template <class T>
int64_t score_arena_bytes(const Model<T>& model, int64_t tokens, int threads);

}  // namespace muster
