#include "base/hash.h"

#include <isa-l.h>
#include <xxhash.h>

#include <utility>

#include "base/check.h"
#include "base/cpu_features.h"
#include "base/xxh3_kernels.h"

namespace muster {

// The distribution's library runs XXH3 at a fraction of what the CPU's vectors allow (measured: 2.7
// against 10-25 GB/s), so the inner loops are compiled here for each instruction set.
static Xxh3Kernels choose_kernels() {
#if defined(__x86_64__)
  const CpuFeatures features = cpu_features();
  if (features.avx512) return xxh3_kernels_avx512();
  if (features.avx2) return xxh3_kernels_avx2();
#endif
  return xxh3_kernels_baseline();
}

static const Xxh3Kernels& kernels() {
  static const Xxh3Kernels chosen = choose_kernels();
  return chosen;
}

std::string Hash128::hex() const {
  static constexpr char digits[] = "0123456789abcdef";
  std::string text(32, '0');
  for (int i = 0; i < 32; ++i) {
    const uint64_t word = i < 16 ? high : low;
    text[static_cast<size_t>(i)] = digits[word >> (60 - 4 * (i % 16)) & 15];
  }
  return text;
}

std::optional<Hash128> Hash128::from_hex(std::string_view text) {
  if (text.size() != 32) return std::nullopt;
  Hash128 h;
  for (size_t i = 0; i < 32; ++i) {
    const char c = text[i];
    uint64_t digit;
    if (c >= '0' && c <= '9')
      digit = static_cast<uint64_t>(c - '0');
    else if (c >= 'a' && c <= 'f')
      digit = static_cast<uint64_t>(c - 'a') + 10;
    else
      return std::nullopt;
    uint64_t& word = i < 16 ? h.high : h.low;
    word = word << 4 | digit;
  }
  return h;
}

Hash128 xxh3_128(std::span<const std::byte> bytes) {
  Hash128 hash;
  kernels().hash(bytes.data(), bytes.size(), &hash.low, &hash.high);
  return hash;
}
Hash128 xxh3_128(std::string_view text) {
  return xxh3_128(std::as_bytes(std::span(text)));
}
uint64_t xxh3_64(std::string_view text, uint64_t seed) {
  return XXH3_64bits_withSeed(text.data(), text.size(), seed);
}

static XXH3_state_t* state_of(void* p) {
  return static_cast<XXH3_state_t*>(p);
}

Xxh3::Xxh3() : state_(XXH3_createState()) {
  MUSTER_CHECK(state_ != nullptr);
  XXH3_128bits_reset(state_of(state_));
}
Xxh3::~Xxh3() {
  if (state_ != nullptr) XXH3_freeState(state_of(state_));
}
Xxh3::Xxh3(Xxh3&& other) noexcept : state_(std::exchange(other.state_, nullptr)) {}
Xxh3& Xxh3::operator=(Xxh3&& other) noexcept {
  std::swap(state_, other.state_);
  return *this;
}
void Xxh3::update(std::span<const std::byte> bytes) {
  kernels().update(state_, bytes.data(), bytes.size());
}
void Xxh3::update(std::string_view text) {
  update(std::as_bytes(std::span(text)));
}
void Xxh3::update_u64(uint64_t value) {
  std::byte bytes[8];
  for (int i = 0; i < 8; ++i) bytes[i] = static_cast<std::byte>(value >> (8 * i));
  update(bytes);
}
Hash128 Xxh3::digest() const {
  const XXH128_hash_t hash = XXH3_128bits_digest(state_of(state_));
  return {hash.low64, hash.high64};
}

uint32_t crc32c(std::span<const std::byte> bytes, uint32_t crc) {
  // ISA-L takes and returns the running value without the final inversion, and counts in int.
  uint32_t running = ~crc;
  constexpr size_t kMost = size_t{1} << 30;
  while (!bytes.empty()) {
    const size_t n = std::min(bytes.size(), kMost);
    // The signature lacks const; the function only reads.
    auto* data = reinterpret_cast<unsigned char*>(const_cast<std::byte*>(bytes.data()));
    running = crc32_iscsi(data, static_cast<int>(n), running);
    bytes = bytes.subspan(n);
  }
  return ~running;
}

}  // namespace muster
