// MergePairs: which token two neighbours make, for tokens numbered from 0 whose parts are known: a
// table of numbers alone, checked against those parts, behind a filter that ends most questions,
// since most pairs make nothing. Built once, then read only (any thread).
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "text/huge_allocator.h"

namespace muster {

class MergePairs {
 public:
  static constexpr uint32_t kNone = ~uint32_t{0};
  struct Parts {
    uint32_t left, right;
  };

  MergePairs() : MergePairs({}, 0) {}
  // `parts`: of every token; those before `first` have none.
  MergePairs(const std::vector<Parts>& parts, size_t first) : parts_(parts.begin(), parts.end()) {
    size_t size = 64;
    while (size < parts_.size() * 2) size *= 2;
    slots_.assign(size, kNone);
    filter_.assign(size / 16, 0);  // 4 to 8 bits a slot, 8 to 16 a token
    slot_shift_ = 64 - __builtin_ctzll(size);
    filter_shift_ = 64 - __builtin_ctzll(filter_.size());
    for (size_t token = first; token < parts_.size(); ++token) {
      const uint64_t hash = hash_of(parts_[token].left, parts_[token].right);
      filter_[hash >> filter_shift_] |= uint64_t{1} << (hash & 63);
      size_t at = hash >> slot_shift_;
      while (slots_[at] != kNone) at = (at + 1) & (size - 1);
      slots_[at] = static_cast<uint32_t>(token);
    }
  }

  const Parts& parts(uint32_t token) const { return parts_[token]; }

  // The token that `left` and `right` make, kNone if none.
  uint32_t made(uint32_t left, uint32_t right) const {
    const uint64_t hash = hash_of(left, right);
    if ((filter_[hash >> filter_shift_] >> (hash & 63) & 1) == 0) [[likely]]
      return kNone;
    for (size_t at = hash >> slot_shift_;; at = (at + 1) & (slots_.size() - 1)) {
      const uint32_t token = slots_[at];
      if (token == kNone || (parts_[token].left == left && parts_[token].right == right))
        return token;
    }
  }

 private:
  static uint64_t hash_of(uint32_t left, uint32_t right) {
    const uint64_t mixed = (static_cast<uint64_t>(left) << 32 | right) * 0x9E3779B97F4A7C15u;
    return (mixed ^ mixed >> 32) * 0xD6E8FEB86659FD93u;
  }

  HugeVector<Parts> parts_;
  HugeVector<uint32_t> slots_;
  HugeVector<uint64_t> filter_;
  int slot_shift_, filter_shift_;
};

}  // namespace muster
