// WordCounts: how often each piece ("word") occurs in a set of texts. Internal to training.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "text/split.h"

namespace muster {

struct WordCount {
  std::string_view word;  // inside one of the texts
  uint64_t count;
};

// Sorted by word, so that the result does not depend on `threads`.
std::vector<WordCount> count_words(std::span<const std::string_view> texts, SplitPattern pattern,
                                   int threads);

}  // namespace muster
