// Sampler: the next token from a row of logits. Greedy at temperature 0 (ties: the lowest id).
// Otherwise the logits are divided by the temperature, cut to the top_k largest, then to the
// smallest set of most likely tokens whose probability reaches top_p, and one is drawn by a random
// number that depends on (seed, position) alone: the same prompt and seed give the same text on any
// machine. Double precision, strict mathematics. Pure.
#pragma once

#include <cstdint>
#include <span>

#include "base/result.h"

namespace muster {

struct Sampling {
  double temperature = 0;
  int64_t top_k = 0;  // 0 = no limit
  double top_p = 1;   // in (0, 1]
  uint64_t seed = 0;
};
// Errors: invalid_argument names the field.
Status validate(const Sampling& sampling);

// `position`: of the token to be drawn, counted from the start of the sequence. Errors: corrupt
// when a logit is not a number or infinite, as weights that overflowed give.
template <class T>
Result<int32_t> sample(std::span<const T> logits, const Sampling& sampling, int64_t position);

}  // namespace muster
