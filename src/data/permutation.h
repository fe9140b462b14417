// Permutation: a keyed bijection of [0, n), so that sample order is a pure function of (seed,
// epoch, index): no shuffle buffer, O(1) memory and time per index, invertible.
//
// A balanced Feistel network of six rounds over the smallest even number of bits that covers n,
// walked until it falls inside [0, n) (cycle walking, Black & Rogaway, "Ciphers with Arbitrary
// Finite Domains", CT-RSA 2002). The domain is less than 4 n, so a walk takes fewer than 4 steps on
// average. Value type; const and thread-safe.
#pragma once

#include <array>
#include <cstdint>

namespace muster {

class Permutation {
 public:
  // n >= 1. Other (seed, epoch) give other orders.
  Permutation(uint64_t n, uint64_t seed, uint64_t epoch);

  uint64_t size() const { return n_; }
  uint64_t at(uint64_t index) const;        // index < n
  uint64_t index_of(uint64_t value) const;  // the inverse

 private:
  static constexpr int kRounds = 6;
  uint64_t forward(uint64_t x) const;
  uint64_t backward(uint64_t x) const;
  uint64_t round(int i, uint64_t half) const;

  uint64_t n_;
  int half_bits_;
  uint64_t half_mask_;
  std::array<uint64_t, kRounds> keys_;
};

}  // namespace muster
