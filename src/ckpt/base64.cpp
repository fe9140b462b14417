#include "ckpt/base64.h"

#include <cstdint>

namespace muster {

static constexpr std::string_view kDigits =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

std::string base64_encode(std::string_view bytes) {
  std::string text;
  text.reserve((bytes.size() + 2) / 3 * 4);
  for (size_t i = 0; i < bytes.size(); i += 3) {
    const std::string_view group = bytes.substr(i, 3);
    uint32_t bits = 0;
    for (size_t b = 0; b < 3; ++b)
      bits = bits << 8 | (b < group.size() ? static_cast<uint8_t>(group[b]) : 0u);
    for (size_t d = 0; d < 4; ++d)
      text += d <= group.size() ? kDigits[bits >> (18 - 6 * d) & 63] : '=';
  }
  return text;
}

std::optional<std::string> base64_decode(std::string_view text) {
  if (text.size() % 4 != 0) return std::nullopt;
  std::string bytes;
  bytes.reserve(text.size() / 4 * 3);
  for (size_t i = 0; i < text.size(); i += 4) {
    uint32_t bits = 0;
    size_t digits = 0;
    for (size_t d = 0; d < 4; ++d) {
      const size_t value = kDigits.find(text[i + d]);
      if (value != std::string_view::npos && digits == d) ++digits;
      bits = bits << 6 | (value == std::string_view::npos ? 0 : static_cast<uint32_t>(value));
    }
    if (digits < 2) return std::nullopt;
    for (size_t b = 0; b + 1 < digits; ++b) bytes += static_cast<char>(bits >> (16 - 8 * b));
  }
  // Padding in the middle, other characters, loose bits: all show in the way back.
  if (base64_encode(bytes) != text) return std::nullopt;
  return bytes;
}

}  // namespace muster
