#include "base/random.h"

#include <sys/random.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/check.h"
#include "base/philox.h"

namespace muster {

uint64_t Random::u64() {
  uint64_t value;
  fill(std::as_writable_bytes(std::span(&value, 1)));
  return value;
}

uint64_t Random::below(uint64_t n) {
  MUSTER_CHECK(n >= 1);
  return philox_below(n, u64(), u64(), 0);
}

void RealRandom::fill(std::span<std::byte> out) {
  while (!out.empty()) {
    const ssize_t got = getrandom(out.data(), out.size(), 0);
    if (got < 0) {
      MUSTER_CHECK(errno == EINTR, errno);
      continue;
    }
    out = out.subspan(static_cast<size_t>(got));
  }
}

void SimRandom::fill(std::span<std::byte> out) {
  while (!out.empty()) {
    const uint64_t word = philox_u64(seed_, drawn_++, 0);
    const size_t n = std::min(out.size(), sizeof word);
    std::memcpy(out.data(), &word, n);
    out = out.subspan(n);
  }
}

}  // namespace muster
