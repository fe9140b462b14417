// Generation: a prompt goes on token by token until <|endoftext|>, a limit or the end of the
// context. Works on ids; prompt.h makes ids of texts.
#pragma once

#include <functional>
#include <string_view>
#include <vector>

#include "train/serve/decoder.h"
#include "train/serve/sampler.h"

namespace muster {

struct GenerateRequest {
  std::vector<int32_t> prompt;
  int64_t max_tokens = 0;  // new ones at most; 0 = to the end of the context
  Sampling sampling;
  std::vector<int32_t> stop;  // ids that end the text; not part of it
};

enum class StopReason : uint8_t { stop_token, max_tokens, context };

struct Generated {
  std::vector<int32_t> tokens;  // new ones, without the stop token
  StopReason reason = StopReason::max_tokens;
};

// Tokens that `request` can come to: its prompt and max_tokens, at most the context. What the
// decoder and its scratch must hold.
int64_t most_tokens(const GenerateRequest& request, int64_t context);

// `decoder` is cleared first. `on_token` (may be empty) sees each token as it comes; false ends the
// text there, as max_tokens would. Errors: those of Decoder::read, sample and validate.
template <class T>
Result<Generated> generate(Decoder<T>& decoder, const GenerateRequest& request,
                           const std::function<bool(int32_t)>& on_token);

}  // namespace muster
