// ShortKey: a byte string of 1 to 15 bytes as two words, for tables that compare whole keys at
// once. Pure; any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace muster {

inline uint64_t load_u64(const uint8_t* p) {
  uint64_t word;
  std::memcpy(&word, p, 8);
  return word;
}

// The bytes, zero padded, and their number in the top byte of `high`: never 0, so 0 marks "no key".
struct ShortKey {
  static constexpr size_t kMaxBytes = 15;
  uint64_t low, high;

  bool operator==(const ShortKey&) const = default;

  // The first `size` (1..15) of the 16 bytes in `low` and `high`, first byte lowest.
  static ShortKey of(uint64_t low, uint64_t high, size_t size) {
    if (size < 8) {
      low &= (uint64_t{1} << (size * 8)) - 1;
      high = 0;
    } else {
      high &= (uint64_t{1} << ((size - 8) * 8)) - 1;
    }
    return {low, high | static_cast<uint64_t>(size) << 56};
  }
  // `p`: 16 readable bytes.
  static ShortKey of(const uint8_t* p, size_t size) {
    return of(load_u64(p), load_u64(p + 8), size);
  }

  // All 64 bits are mixed: tables take the upper ones for the place, filters the lowest for the
  // bit.
  uint64_t hash() const {
    const unsigned __int128 product =
        static_cast<unsigned __int128>(low ^ 0x9E3779B97F4A7C15u) * (high ^ 0xD6E8FEB86659FD93u);
    return (static_cast<uint64_t>(product) ^ static_cast<uint64_t>(product >> 64)) *
           0x9E3779B97F4A7C15u;
  }
};

}  // namespace muster
