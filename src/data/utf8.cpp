#include "data/utf8.h"

#include <cstring>

namespace muster {

bool is_utf8(std::string_view text) {
  const auto* p = reinterpret_cast<const unsigned char*>(text.data());
  const auto* const end = p + text.size();
  const auto continuation = [](unsigned char c) { return (c & 0xc0) == 0x80; };
  while (p < end) {
    if (end - p >= 8) {  // eight ASCII bytes at once
      uint64_t word;
      std::memcpy(&word, p, 8);
      if ((word & 0x8080808080808080) == 0) {
        p += 8;
        continue;
      }
    }
    const unsigned char c = *p;
    if (c < 0x80) {
      p += 1;
    } else if (c >= 0xc2 && c <= 0xdf) {
      if (end - p < 2 || !continuation(p[1])) return false;
      p += 2;
    } else if (c >= 0xe0 && c <= 0xef) {
      if (end - p < 3 || !continuation(p[1]) || !continuation(p[2])) return false;
      if (c == 0xe0 && p[1] < 0xa0) return false;  // overlong
      if (c == 0xed && p[1] > 0x9f) return false;  // surrogates
      p += 3;
    } else if (c >= 0xf0 && c <= 0xf4) {
      if (end - p < 4 || !continuation(p[1]) || !continuation(p[2]) || !continuation(p[3]))
        return false;
      if (c == 0xf0 && p[1] < 0x90) return false;  // overlong
      if (c == 0xf4 && p[1] > 0x8f) return false;  // above U+10FFFF
      p += 4;
    } else {
      return false;
    }
  }
  return true;
}

std::vector<uint32_t> code_point_offsets(std::string_view text) {
  std::vector<uint32_t> offsets;
  offsets.reserve(text.size() + 1);
  for (size_t i = 0; i < text.size(); ++i) {
    if ((static_cast<unsigned char>(text[i]) & 0xc0) != 0x80)
      offsets.push_back(static_cast<uint32_t>(i));
  }
  offsets.push_back(static_cast<uint32_t>(text.size()));
  return offsets;
}

}  // namespace muster
