#include "train/evals/text_loss.h"

#include <numbers>

namespace muster {

std::optional<double> TextLoss::bits_per_byte() const {
  if (bytes == 0) return std::nullopt;
  return nats / std::numbers::ln2 / static_cast<double>(bytes);
}

TextLoss& TextLoss::operator+=(const TextLoss& other) {
  nats += other.nats;
  tokens += other.tokens;
  bytes += other.bytes;
  return *this;
}

std::vector<int32_t> text_bytes_by_id(const Tokenizer& tokenizer) {
  std::vector<int32_t> sizes;
  for (uint32_t id = 0; id < tokenizer.vocabulary_size(); ++id) {
    const auto bytes = tokenizer.token_bytes(id);
    sizes.push_back(bytes ? static_cast<int32_t>(bytes->size()) : 0);
  }
  for (const AddedToken& token : tokenizer.parts().added)
    if (token.special) sizes[token.id] = 0;
  return sizes;
}

}  // namespace muster
