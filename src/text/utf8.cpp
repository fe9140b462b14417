#include "text/utf8.h"

#include <cstring>

namespace muster {

namespace {

struct Sequence {
  uint32_t length;  // of the well-formed sequence, or of its maximal well-formed prefix (>= 1)
  bool complete;
};

// Table 3-7 of the Unicode standard: the second byte's range depends on the first.
Sequence scan(const uint8_t* p, size_t left) {
  const uint8_t a = p[0];
  if (a < 0x80) return {1, true};
  uint32_t need;
  uint8_t low = 0x80, high = 0xBF;
  if (a >= 0xC2 && a <= 0xDF) {
    need = 2;
  } else if (a >= 0xE0 && a <= 0xEF) {
    need = 3;
    if (a == 0xE0) low = 0xA0;
    if (a == 0xED) high = 0x9F;
  } else if (a >= 0xF0 && a <= 0xF4) {
    need = 4;
    if (a == 0xF0) low = 0x90;
    if (a == 0xF4) high = 0x8F;
  } else {
    return {1, false};
  }
  uint32_t have = 1;
  while (have < need && have < left && p[have] >= low && p[have] <= high) {
    low = 0x80;
    high = 0xBF;
    ++have;
  }
  return {have, have == need};
}

}  // namespace

void append_utf8(std::string& out, uint32_t c) {
  const auto put = [&out](uint32_t byte) { out.push_back(static_cast<char>(byte)); };
  if (c < 0x80) {
    put(c);
  } else if (c < 0x800) {
    put(0xC0 | c >> 6);
    put(0x80 | (c & 0x3F));
  } else if (c < 0x10000) {
    put(0xE0 | c >> 12);
    put(0x80 | (c >> 6 & 0x3F));
    put(0x80 | (c & 0x3F));
  } else {
    put(0xF0 | c >> 18);
    put(0x80 | (c >> 12 & 0x3F));
    put(0x80 | (c >> 6 & 0x3F));
    put(0x80 | (c & 0x3F));
  }
}

size_t valid_utf8_prefix(std::string_view text) {
  const auto* p = reinterpret_cast<const uint8_t*>(text.data());
  const size_t n = text.size();
  size_t i = 0;
  while (i < n) {
    if (i + 8 <= n) {
      uint64_t word;
      std::memcpy(&word, p + i, 8);
      if ((word & 0x8080808080808080u) == 0) {
        i += 8;
        continue;
      }
    }
    const Sequence s = scan(p + i, n - i);
    if (!s.complete) return i;
    i += s.length;
  }
  return n;
}

std::string replace_invalid_utf8(std::string_view text, size_t& replaced) {
  std::string out;
  out.reserve(text.size() + 16);
  while (!text.empty()) {
    const size_t good = valid_utf8_prefix(text);
    out.append(text.substr(0, good));
    text.remove_prefix(good);
    if (text.empty()) break;
    out.append("\xEF\xBF\xBD");
    ++replaced;
    text.remove_prefix(scan(reinterpret_cast<const uint8_t*>(text.data()), text.size()).length);
  }
  return out;
}

size_t incomplete_utf8_suffix(std::string_view text) {
  const auto* p = reinterpret_cast<const uint8_t*>(text.data());
  for (size_t back = 1; back <= 3 && back <= text.size(); ++back) {
    const uint8_t byte = p[text.size() - back];
    if ((byte & 0xC0) == 0x80) continue;
    const Sequence s = scan(p + text.size() - back, back);
    return !s.complete && s.length == back ? back : 0;
  }
  return 0;
}

}  // namespace muster
