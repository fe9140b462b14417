// UTF-8: decoding of valid text, validation, and replacement of what is not valid. Replacement
// follows the practice that Python's bytes.decode("utf-8", "replace") and Rust's from_utf8_lossy
// share: each maximal prefix of a well-formed sequence, or else one byte, becomes one U+FFFD. Pure
// functions; any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace muster {

struct Utf8Char {
  uint32_t code_point;
  uint32_t length;  // bytes, 1..4
};

// The character at `p`, which must begin a valid sequence that lies in readable memory.
inline Utf8Char decode_utf8(const uint8_t* p) {
  const uint32_t a = p[0];
  if (a < 0x80) return {a, 1};
  if (a < 0xE0) return {(a & 0x1F) << 6 | (p[1] & 0x3Fu), 2};
  if (a < 0xF0) return {(a & 0x0F) << 12 | (p[1] & 0x3Fu) << 6 | (p[2] & 0x3Fu), 3};
  return {(a & 0x07) << 18 | (p[1] & 0x3Fu) << 12 | (p[2] & 0x3Fu) << 6 | (p[3] & 0x3Fu), 4};
}

// Appends the code point (not a surrogate, < 0x110000).
void append_utf8(std::string& out, uint32_t code_point);

// Bytes before the first that is not part of a valid sequence; text.size() if all is valid.
size_t valid_utf8_prefix(std::string_view text);

// `text` with every invalid part replaced by U+FFFD; adds the number of replacements to `replaced`.
std::string replace_invalid_utf8(std::string_view text, size_t& replaced);

// Length of the incomplete but so far well-formed sequence at the end of `text`: 0..3. What follows
// it may complete it, so a stream holds these bytes back.
size_t incomplete_utf8_suffix(std::string_view text);

}  // namespace muster
