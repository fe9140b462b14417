// The class of a code point as splitting patterns see it: \p{L}, \p{N}, \s or neither. Pinned to
// the Unicode version of the reference implementation (unicode_table.inc,
// tools/make_unicode_table.py). Pure functions over constant tables; any thread.
#pragma once

#include <cstdint>

namespace muster {

enum class CharClass : uint8_t { other = 0, letter = 1, number = 2, space = 3 };

namespace detail {
extern const unsigned char* const kUnicodeBlockOf;       // [0x110000 / 128] -> block
extern const unsigned char (*const kUnicodeBlocks)[32];  // 2 bits a code point, 128 a block
}  // namespace detail

// `code_point` < 0x110000.
inline CharClass char_class(uint32_t code_point) {
  const unsigned char* block = detail::kUnicodeBlocks[detail::kUnicodeBlockOf[code_point >> 7]];
  const uint32_t at = code_point & 127;
  return static_cast<CharClass>((block[at >> 2] >> ((at & 3) * 2)) & 3);
}

}  // namespace muster
