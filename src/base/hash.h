// Hashes: XXH3-128 names content (digests, dedupe), XXH3-64 keys tables, CRC32C guards bytes on
// disk and wire.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace muster {

struct Hash128 {
  uint64_t low = 0, high = 0;
  auto operator<=>(const Hash128&) const = default;
  // 32 lower-case hexadecimal digits, most significant first.
  std::string hex() const;
  static std::optional<Hash128> from_hex(std::string_view text);
};

Hash128 xxh3_128(std::span<const std::byte> bytes);
Hash128 xxh3_128(std::string_view text);
uint64_t xxh3_64(std::string_view text, uint64_t seed = 0);

// Streaming XXH3-128: equal to the one-shot hash of the concatenated updates. Movable, not
// copyable.
class Xxh3 {
 public:
  Xxh3();
  ~Xxh3();
  Xxh3(Xxh3&&) noexcept;
  Xxh3& operator=(Xxh3&&) noexcept;
  void update(std::span<const std::byte> bytes);
  void update(std::string_view text);
  // Little-endian bytes of an integer.
  void update_u64(uint64_t value);
  Hash128 digest() const;

 private:
  void* state_;
};

// CRC32C (Castagnoli, reflected, initial and final inversion included): crc32c(b, crc32c(a)) ==
// crc32c(a + b).
uint32_t crc32c(std::span<const std::byte> bytes, uint32_t crc = 0);

}  // namespace muster
