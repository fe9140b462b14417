#include "text/token_index.h"

#include <unordered_set>

namespace muster {

TokenIndex::TokenIndex(const std::vector<std::pair<std::string_view, uint32_t>>& tokens)
    : pairs_(65536, kNone) {
  bytes_.fill(kNone);
  const auto byte = [](std::string_view bytes, size_t i) { return static_cast<uint8_t>(bytes[i]); };
  const auto first_two = [&](std::string_view b) { return byte(b, 0) | byte(b, 1) << 8; };
  size_t beyond_two = 0;
  std::unordered_set<uint32_t> threes;
  for (const auto& [bytes, token] : tokens) {
    if (bytes.size() == 1) bytes_[byte(bytes, 0)] = token;
    if (bytes.size() == 2) pairs_[static_cast<size_t>(first_two(bytes))] = token;
    if (bytes.size() < 3) continue;
    ++beyond_two;
    threes.insert(static_cast<uint32_t>(first_two(bytes) | byte(bytes, 2) << 16));
  }
  size_t slots = 64;
  while (slots < beyond_two * 2) slots *= 2;
  slots_.resize(slots);
  slot_mask_ = slots - 1;
  slot_shift_ = 64 - __builtin_ctzll(slots);
  size_t starts = 64;
  while (starts < threes.size() * 2) starts *= 2;
  starts_.resize(starts);
  start_mask_ = starts - 1;
  start_shift_ = 64 - __builtin_ctzll(starts);
  // 8 to 16 bits a token: few probes pass that find nothing.
  filter_.resize(slots * 8 / 64);
  filter_shift_ = 64 - __builtin_ctzll(filter_.size());

  for (const auto& [bytes, token] : tokens) {
    if (bytes.size() < 3) continue;
    const auto three = static_cast<uint32_t>(first_two(bytes) | byte(bytes, 2) << 16);
    size_t at = start_slot(three);
    while (starts_[at].bytes != three && starts_[at].bytes != kNone) at = (at + 1) & start_mask_;
    Start& start = starts_[at];
    start.bytes = three;
    if (bytes.size() == 3) {
      start.token = token;
      start.length = 3;
    } else if (bytes.size() > ShortKey::kMaxBytes) {
      start.lengths |= 1;
    } else {
      start.lengths |= static_cast<uint16_t>(1u << bytes.size());
      uint8_t padded[16] = {};
      std::memcpy(padded, bytes.data(), bytes.size());
      const ShortKey key = ShortKey::of(padded, bytes.size());
      const uint64_t hash = key.hash();
      filter_[hash >> filter_shift_] |= uint64_t{1} << (hash & 63);
      size_t slot = hash >> slot_shift_;
      while (slots_[slot].key.high != 0) slot = (slot + 1) & slot_mask_;
      slots_[slot] = {key, token};
    }
  }
  for (Start& start : starts_) {
    if (start.bytes == kNone || start.token != kNone) continue;
    const uint32_t pair = pairs_[start.bytes & 0xFFFF];
    start.token = pair != kNone ? pair : bytes_[start.bytes & 0xFF];
    start.length = pair != kNone ? 2 : 1;
  }
}

}  // namespace muster
