#include "text/token_index.h"

#include <algorithm>

namespace muster {

TokenIndex::TokenIndex(const std::vector<std::pair<std::string_view, uint32_t>>& tokens)
    : lengths_(size_t{1} << kPrefixBits, 0) {
  size_t slots = 64;
  while (slots < tokens.size() * 2) slots *= 2;
  slots_.resize(slots);
  slot_mask_ = slots - 1;
  slot_shift_ = 64 - __builtin_ctzll(slots);
  // 8 to 16 bits a token: few probes pass that find nothing.
  const size_t words = slots * 8 / 64;
  filter_.resize(words);
  filter_shift_ = 64 - __builtin_ctzll(words);
  for (const auto& [bytes, token] : tokens) {
    uint8_t padded[16] = {};
    std::memcpy(padded, bytes.data(), std::min<size_t>(bytes.size(), 16));
    uint16_t& lengths = lengths_[prefix_slot(load_u64(padded))];
    if (bytes.size() > ShortKey::kMaxBytes) {
      lengths |= kLong;
      continue;
    }
    // Tokens of one or two bytes are always probed: what follows them is not theirs.
    lengths |= static_cast<uint16_t>(1u << bytes.size());
    const ShortKey key = ShortKey::of(padded, bytes.size());
    const uint64_t hash = key.hash();
    filter_[hash >> filter_shift_] |= uint64_t{1} << (hash & 63);
    size_t at = hash >> slot_shift_;
    while (slots_[at].key.high != 0) at = (at + 1) & slot_mask_;
    slots_[at] = {key, token};
  }
}

}  // namespace muster
