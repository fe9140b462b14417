#include "data/permutation.h"

#include <bit>

#include "base/check.h"
#include "base/philox.h"

namespace muster {

Permutation::Permutation(uint64_t n, uint64_t seed, uint64_t epoch) : n_(n) {
  MUSTER_CHECK(n >= 1);
  const int bits = n == 1 ? 0 : std::bit_width(n - 1);
  half_bits_ = (bits + 1) / 2;
  half_mask_ = (uint64_t{1} << half_bits_) - 1;
  for (int i = 0; i < kRounds; ++i)
    keys_[static_cast<size_t>(i)] = philox_u64(seed, epoch, static_cast<uint64_t>(i));
}

// A strong 64-bit mixer (the finaliser of MurmurHash3's fmix64, by Austin Appleby) of half and
// round key.
uint64_t Permutation::round(int i, uint64_t half) const {
  uint64_t x = half ^ keys_[static_cast<size_t>(i)];
  x ^= x >> 33;
  x *= 0xff51afd7ed558ccd;
  x ^= x >> 33;
  x *= 0xc4ceb9fe1a85ec53;
  x ^= x >> 33;
  return x & half_mask_;
}

uint64_t Permutation::forward(uint64_t x) const {
  uint64_t left = x >> half_bits_, right = x & half_mask_;
  for (int i = 0; i < kRounds; ++i) {
    const uint64_t mixed = left ^ round(i, right);
    left = right;
    right = mixed;
  }
  return left << half_bits_ | right;
}

uint64_t Permutation::backward(uint64_t x) const {
  uint64_t left = x >> half_bits_, right = x & half_mask_;
  for (int i = kRounds - 1; i >= 0; --i) {
    const uint64_t mixed = right ^ round(i, left);
    right = left;
    left = mixed;
  }
  return left << half_bits_ | right;
}

uint64_t Permutation::at(uint64_t index) const {
  MUSTER_CHECK(index < n_, index, n_);
  uint64_t x = forward(index);
  while (x >= n_) x = forward(x);
  return x;
}

uint64_t Permutation::index_of(uint64_t value) const {
  MUSTER_CHECK(value < n_, value, n_);
  uint64_t x = backward(value);
  while (x >= n_) x = backward(x);
  return x;
}

}  // namespace muster
