// A flat hash table from a pair of tokens to what merging them gives. Open addressing, linear
// probes, at most half full; built once, then read only (any thread).
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "text/huge_allocator.h"

namespace muster {

// Values are 64-bit and never kNone.
class PairTable {
 public:
  static constexpr uint64_t kNone = ~uint64_t{0};

  // Room for `pairs` entries.
  explicit PairTable(size_t pairs = 0) {
    size_t size = 16;
    while (size < pairs * 2) size *= 2;
    slots_.assign(size, Slot{kNone, kNone});
    shift_ = 64 - __builtin_ctzll(size);
  }

  // The last value put for a pair stays.
  void put(uint32_t left, uint32_t right, uint64_t value) {
    Slot& slot = slots_[index(key(left, right))];
    slot = Slot{key(left, right), value};
  }

  uint64_t get(uint32_t left, uint32_t right) const {
    return slots_[index(key(left, right))].value;
  }

 private:
  struct Slot {
    uint64_t key, value;
  };

  static uint64_t key(uint32_t left, uint32_t right) {
    return static_cast<uint64_t>(left) << 32 | right;
  }

  size_t index(uint64_t wanted) const {
    size_t at = wanted * 0x9E3779B97F4A7C15u >> shift_;
    while (slots_[at].key != wanted && slots_[at].key != kNone) at = (at + 1) & (slots_.size() - 1);
    return at;
  }

  HugeVector<Slot> slots_;
  int shift_;
};

}  // namespace muster
