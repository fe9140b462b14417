// Variable-length integers: little-endian groups of 7 bits, high bit = more follow (LEB128, as in
// protobuf); zigzag maps small negative numbers to small codes.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace muster {

inline void put_varint(std::string& out, uint64_t value) {
  while (value >= 0x80) {
    out.push_back(static_cast<char>(value | 0x80));
    value >>= 7;
  }
  out.push_back(static_cast<char>(value));
}

// Takes one integer off the front. Nothing when the input ends inside it or it exceeds 64 bits.
inline std::optional<uint64_t> take_varint(std::string_view& in) {
  uint64_t value = 0;
  for (size_t i = 0; i < in.size() && i < 10; ++i) {
    const uint8_t byte = static_cast<uint8_t>(in[i]);
    if (i == 9 && byte > 1) return std::nullopt;
    value |= uint64_t{byte & 0x7Fu} << (7 * i);
    if (byte < 0x80) {
      in.remove_prefix(i + 1);
      return value;
    }
  }
  return std::nullopt;
}

constexpr uint64_t zigzag(int64_t value) {
  return static_cast<uint64_t>(value) << 1 ^ static_cast<uint64_t>(value >> 63);
}
constexpr int64_t unzigzag(uint64_t code) {
  return static_cast<int64_t>(code >> 1) ^ -static_cast<int64_t>(code & 1);
}

}  // namespace muster
