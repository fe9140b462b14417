// Philox4x32-10, the counter-based generator of Salmon et al., "Parallel Random Numbers: As Easy as
// 1, 2, 3" (SC11). A pure function (key, counter) -> 128 random bits: no state, so a draw depends
// on what it is for (step, layer, position; parameter name, element) and never on who draws it or
// when.
#pragma once

#include <array>
#include <cstdint>

namespace muster {

using PhiloxBlock = std::array<uint32_t, 4>;

constexpr PhiloxBlock philox(uint64_t key, uint64_t counter_low, uint64_t counter_high) {
  uint32_t k0 = static_cast<uint32_t>(key), k1 = static_cast<uint32_t>(key >> 32);
  PhiloxBlock c = {static_cast<uint32_t>(counter_low), static_cast<uint32_t>(counter_low >> 32),
                   static_cast<uint32_t>(counter_high), static_cast<uint32_t>(counter_high >> 32)};
  for (int round = 0; round < 10; ++round) {
    const uint64_t p0 = uint64_t{0xD2511F53} * c[0];
    const uint64_t p1 = uint64_t{0xCD9E8D57} * c[2];
    c = {static_cast<uint32_t>(p1 >> 32) ^ c[1] ^ k0, static_cast<uint32_t>(p1),
         static_cast<uint32_t>(p0 >> 32) ^ c[3] ^ k1, static_cast<uint32_t>(p0)};
    k0 += 0x9E3779B9;
    k1 += 0xBB67AE85;
  }
  return c;
}

// The first 64 bits of the block.
constexpr uint64_t philox_u64(uint64_t key, uint64_t counter_low, uint64_t counter_high) {
  const PhiloxBlock b = philox(key, counter_low, counter_high);
  return uint64_t{b[0]} | uint64_t{b[1]} << 32;
}

// Uniform in [0, n) without bias (Lemire's multiply and reject), n >= 1. Rejections draw from
// counter_high + 1, ….
constexpr uint64_t philox_below(uint64_t n, uint64_t key, uint64_t counter_low,
                                uint64_t counter_high) {
  const uint64_t threshold = (0 - n) % n;
  for (;; ++counter_high) {
    const __uint128_t m = static_cast<__uint128_t>(philox_u64(key, counter_low, counter_high)) * n;
    if (static_cast<uint64_t>(m) >= threshold) return static_cast<uint64_t>(m >> 64);
  }
}

// 53 random bits as a double in [0, 1).
constexpr double unit_double(uint64_t bits) {
  return static_cast<double>(bits >> 11) * 0x1.0p-53;
}

}  // namespace muster
