// TokenIndex: the longest token that a text begins with, found by hashing prefixes instead of
// walking a trie: the probes do not depend on each other, so their memory accesses overlap, and a
// token that is there costs one cache line. Holds tokens of at most 15 bytes; says when a longer
// one might match.
//
//   starts   for the first three bytes: the longest token within them, and which lengths occur
//   beyond pairs    for the first two bytes: the longest token within them, where three are not
//   known filter   one bit per hash of a token: most probes that find nothing end here slots open
//   addressing, whole keys, so a hit is exact
//
// Every byte that texts hold must be a token. Built once, then read only (any thread).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

#include "text/huge_allocator.h"
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

  // What is known from the first three bytes of a text (or fewer, if it has fewer).
  struct Start {
    uint32_t bytes = kNone;  // the three bytes; kNone: a free place
    uint32_t token = kNone;  // longest within them
    uint16_t lengths = 0;    // bit n: a token of n >= 4 bytes begins so; bit 0: one of more than 15
    uint16_t length = 0;     // of `token`
    bool may_be_long() const { return (lengths & 1) != 0; }
  };

  // `p`: 16 readable bytes of which `left` >= 1 are text.
  Start start_of(const uint8_t* p, size_t left) const {
    if (left >= 3) [[likely]] {
      const uint32_t bytes = static_cast<uint32_t>(p[0]) | p[1] << 8 | p[2] << 16;
      for (size_t at = start_slot(bytes);; at = (at + 1) & start_mask_) {
        if (starts_[at].bytes == bytes) return starts_[at];
        if (starts_[at].bytes == kNone) break;
      }
    }
    const uint32_t pair = left >= 2 ? pairs_[p[0] | p[1] << 8] : kNone;
    if (pair != kNone) return {0, pair, 0, 2};
    return {0, bytes_[p[0]], 0, 1};
  }

  // The longest token of at most min(left, 15) bytes.
  Match longest(const Start& start, const uint8_t* p, size_t left) const {
    uint32_t candidates = start.lengths & ~1u;
    if (left < ShortKey::kMaxBytes) candidates &= (2u << left) - 1;
    if (candidates != 0) {
      const uint64_t low = load_u64(p), high = load_u64(p + 8);
      do {
        const auto length = static_cast<uint32_t>(31 - __builtin_clz(candidates));
        candidates ^= 1u << length;
        const ShortKey key = ShortKey::of(low, high, length);
        const uint64_t hash = key.hash();
        if ((filter_[hash >> filter_shift_] >> (hash & 63) & 1) == 0) continue;
        if (const uint32_t token = find(key, hash); token != kNone) return {token, length};
      } while (candidates != 0);
    }
    return {start.token, start.length};
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
  struct Slot {
    ShortKey key{0, 0};  // high == 0: free
    uint32_t token = kNone;
  };

  size_t start_slot(uint32_t bytes) const { return bytes * 0x9E3779B97F4A7C15u >> start_shift_; }

  std::array<uint32_t, 256> bytes_;
  HugeVector<uint32_t> pairs_;
  HugeVector<Start> starts_;
  size_t start_mask_ = 0;
  int start_shift_ = 0;
  HugeVector<uint64_t> filter_;
  HugeVector<Slot> slots_;
  size_t slot_mask_ = 0;
  int slot_shift_ = 0;
  int filter_shift_ = 0;
};

}  // namespace muster
