// Code-point positions in UTF-8 text.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

namespace muster {

// Byte offset of every code point of valid UTF-8, then the length: size = code points + 1.
std::vector<uint32_t> code_point_offsets(std::string_view text);

// Whether `text` may be cut before byte `offset` (< size) without splitting a code point.
inline bool is_code_point_start(std::string_view text, size_t offset) {
  return (static_cast<unsigned char>(text[offset]) & 0xc0) != 0x80;
}

}  // namespace muster
