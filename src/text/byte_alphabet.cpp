#include "text/byte_alphabet.h"

#include <array>

#include "text/utf8.h"

namespace muster {

namespace {

constexpr bool shown_as_itself(int byte) {
  return (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte <= 0xAC) || byte >= 0xAE;
}

struct Alphabet {
  std::array<uint16_t, 256> char_of{};
  std::array<int16_t, 512> byte_of{};
  constexpr Alphabet() {
    for (int16_t& byte : byte_of) byte = -1;
    int next = 256;
    for (int byte = 0; byte < 256; ++byte) {
      const int c = shown_as_itself(byte) ? byte : next++;
      char_of[static_cast<size_t>(byte)] = static_cast<uint16_t>(c);
      byte_of[static_cast<size_t>(c)] = static_cast<int16_t>(byte);
    }
  }
};
constexpr Alphabet kAlphabet;

}  // namespace

uint32_t alphabet_char(uint8_t byte) {
  return kAlphabet.char_of[byte];
}

std::string to_alphabet(std::string_view bytes) {
  std::string out;
  out.reserve(bytes.size() * 2);
  for (const char byte : bytes) append_utf8(out, alphabet_char(static_cast<uint8_t>(byte)));
  return out;
}

std::optional<std::string> from_alphabet(std::string_view text) {
  if (valid_utf8_prefix(text) != text.size()) return std::nullopt;
  std::string out;
  const auto* p = reinterpret_cast<const uint8_t*>(text.data());
  for (size_t i = 0; i < text.size();) {
    const Utf8Char c = decode_utf8(p + i);
    if (c.code_point >= 512 || kAlphabet.byte_of[c.code_point] < 0) return std::nullopt;
    out.push_back(static_cast<char>(kAlphabet.byte_of[c.code_point]));
    i += c.length;
  }
  return out;
}

}  // namespace muster
