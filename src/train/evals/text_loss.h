// TextLoss: how well a model predicts text, summed over tokens: of one scored text, of many, or of
// the held-out part of a corpus. The one place where a loss becomes bits per byte. Plain value.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "text/tokenizer.h"

namespace muster {

struct TextLoss {
  double nats = 0;     // minus the sum of the log-probabilities
  int64_t tokens = 0;  // predicted
  int64_t bytes = 0;   // UTF-8, that the predicted tokens stand for; 0 = not known

  // Nats per predicted token; 0 without one.
  double loss() const { return tokens == 0 ? 0 : nats / static_cast<double>(tokens); }
  // nats / ln 2 / bytes; nothing without bytes.
  std::optional<double> bits_per_byte() const;

  TextLoss& operator+=(const TextLoss& other);
};

// By id: the bytes that a token stands for in a text. Special tokens stand for none.
std::vector<int32_t> text_bytes_by_id(const Tokenizer& tokenizer);

}  // namespace muster
