// TokenIndex: the longest token that a text begins with, found by hashing prefixes instead of
// walking a trie: the probes do not depend on each other, so their memory accesses overlap, and a
// token that is there costs one cache line. Holds tokens of at most 15 bytes; says when a longer
// one might match.
//
//   lengths  for (the hash of) the first three bytes: which token lengths occur behind them
//   filter   one bit per hash of a token: most probes that find nothing end here
//   slots    open addressing, whole keys, so a hit is exact
//
// Built once, then read only (any thread).
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

#include "text/short_key.h"

namespace muster {

class TokenIndex {
 public:
  static constexpr uint32_t kNone = ~uint32_t{0};
  struct Match {
    uint32_t token;   // kNone: no token
    uint32_t length;  // bytes; 0 with kNone
  };

  TokenIndex() : TokenIndex(std::vector<std::pair<std::string_view, uint32_t>>()) {}
  // Distinct non-empty byte strings with values.
  explicit TokenIndex(const std::vector<std::pair<std::string_view, uint32_t>>& tokens);

  // May a token of more than 15 bytes begin like this? `p`: 16 readable bytes.
  bool may_be_long(const uint8_t* p) const {
    return (lengths_[prefix_slot(load_u64(p))] & kLong) != 0;
  }

  // The longest token of at most min(left, 15) bytes. `p`: 16 readable bytes; `left` >= 1.
  Match longest(const uint8_t* p, size_t left) const {
    const uint64_t low = load_u64(p), high = load_u64(p + 8);
    const uint32_t allowed = left >= ShortKey::kMaxBytes ? 0xFFFFu : (2u << left) - 1;
    uint32_t candidates = (lengths_[prefix_slot(low)] & allowed & ~7u) | (allowed & 6u);
    while (candidates != 0) {
      const auto length = static_cast<uint32_t>(31 - __builtin_clz(candidates));
      candidates ^= 1u << length;
      const ShortKey key = ShortKey::of(low, high, length);
      const uint64_t hash = key.hash();
      if ((filter_[hash >> filter_shift_] >> (hash & 63) & 1) == 0) continue;
      if (const uint32_t token = find(key, hash); token != kNone) return {token, length};
    }
    return {kNone, 0};
  }

  // The token of exactly these bytes.
  uint32_t find(const ShortKey& key, uint64_t hash) const {
    for (size_t at = hash >> slot_shift_;; at = (at + 1) & slot_mask_) {
      const Slot& slot = slots_[at];
      if (slot.key == key) return slot.token;
      if (slot.key.high == 0) return kNone;
    }
  }

 private:
  static constexpr int kPrefixBits = 15;
  static constexpr uint16_t kLong = 1;  // bit n: a token of n bytes; bit 0: one of more than 15
  struct Slot {
    ShortKey key{0, 0};  // high == 0: free
    uint32_t token = kNone;
  };

  static size_t prefix_slot(uint64_t low) {
    return (low << 40) * 0x9E3779B97F4A7C15u >> (64 - kPrefixBits);
  }

  std::vector<uint16_t> lengths_;
  std::vector<uint64_t> filter_;
  std::vector<Slot> slots_;
  size_t slot_mask_ = 0;
  int slot_shift_ = 0;
  int filter_shift_ = 0;
};

}  // namespace muster
