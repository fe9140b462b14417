// What the tests of this room share: an Exec per instruction set and thread count, and repeatable
// numbers.
#pragma once

#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "base/philox.h"
#include "train/ops/exec.h"
#include "train/ops/kernels.h"

namespace muster::ops {

// The instruction sets this machine can run.
inline std::vector<Isa> isas() {
  std::vector<Isa> all;
  for (Isa isa : {Isa::scalar, Isa::avx2, Isa::avx512}) {
    if (isa <= best_isa()) all.push_back(isa);
  }
  return all;
}

// An Exec with what it points to.
struct Bench {
  explicit Bench(int threads, Isa isa)
      : team(threads),
        arena(*Arena::make(size_t{96} << 20, false)),
        exec{team, arena, isa, Mode::strict} {}
  ThreadTeam team;
  Arena arena;
  Exec exec;
};

// Uniform in [-1, 1), the same for every T up to rounding.
template <class T>
std::vector<T> numbers(int64_t n, uint64_t key) {
  std::vector<T> v(static_cast<size_t>(n));
  for (size_t i = 0; i < v.size(); ++i) {
    const double x = 2 * unit_double(philox_u64(key, i, 0)) - 1;
    v[i] = static_cast<T>(static_cast<float>(x));
  }
  return v;
}

template <class T>
bool same_bits(const std::vector<T>& a, const std::vector<T>& b) {
  return a.size() == b.size() &&
         (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(T)) == 0);
}

}  // namespace muster::ops
