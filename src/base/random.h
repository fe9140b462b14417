// Random: the seam for seeds and secrets (uuids, session keys). Everything that must be repeatable
// uses philox.h with an explicit key instead. Real: getrandom(2). Simulated: Philox from a seed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace muster {

class Random {
 public:
  virtual ~Random() = default;
  virtual void fill(std::span<std::byte> out) = 0;
  uint64_t u64();
  // Uniform in [0, n), n >= 1.
  uint64_t below(uint64_t n);
};

// getrandom(2). Safe from any thread.
class RealRandom final : public Random {
 public:
  void fill(std::span<std::byte> out) override;
};

// Repeatable. Not thread-safe.
class SimRandom final : public Random {
 public:
  explicit SimRandom(uint64_t seed) : seed_(seed) {}
  void fill(std::span<std::byte> out) override;

 private:
  uint64_t seed_;
  uint64_t drawn_ = 0;
};

}  // namespace muster
