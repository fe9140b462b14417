// The scanners one character at a time: the definition that the vector versions must equal. Inline
// so that split.cpp and the block scanners share them. Internal to the room.
#pragma once

#include "text/split.h"
#include "text/unicode_class.h"
#include "text/utf8.h"

namespace muster::split_detail {

struct AsciiClasses {
  CharClass of[128];
  constexpr AsciiClasses() : of() {
    for (int c = 0; c < 128; ++c) {
      const bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
      of[c] = letter                                 ? CharClass::letter
              : c >= '0' && c <= '9'                 ? CharClass::number
              : c == ' ' || (c >= '\t' && c <= '\r') ? CharClass::space
                                                     : CharClass::other;
    }
  }
};
inline constexpr AsciiClasses kAscii;

struct Char {
  CharClass cls;
  uint32_t length;
};

inline Char char_at(const uint8_t* p) {
  if (*p < 0x80) return {kAscii.of[*p], 1};
  const Utf8Char c = decode_utf8(p);
  return {char_class(c.code_point), c.length};
}

inline bool is_newline(uint8_t byte) {
  return byte == '\n' || byte == '\r';
}

// Past the run of characters of class `cls` that starts at `p`.
inline const uint8_t* run_of(CharClass cls, const uint8_t* p, const uint8_t* end) {
  while (p < end) {
    const Char c = char_at(p);
    if (c.cls != cls) break;
    p += c.length;
  }
  return p;
}

// Bytes of the contraction at `p` (which holds "'"), 0 if there is none. Ignoring case also lets
// U+017F, whose case folding is s, stand for s.
inline size_t contraction(const uint8_t* p, const uint8_t* end, bool ignore_case) {
  const size_t left = static_cast<size_t>(end - p);
  if (left < 2) return 0;
  const uint8_t fold = ignore_case ? 0x20 : 0;
  const uint8_t a = p[1] | fold;
  if (a == 's' || a == 't' || a == 'm' || a == 'd') return 2;
  if (left < 3) return 0;
  if (ignore_case && p[1] == 0xC5 && p[2] == 0xBF) return 3;
  const uint8_t b = p[2] | fold;
  if ((a == 'r' && b == 'e') || (a == 'v' && b == 'e') || (a == 'l' && b == 'l')) return 3;
  return 0;
}

// \s+(?!\S) | \s+ for the whitespace run [p, q): all of it at the end of text, else all but its
// last character, which may begin the next piece; a run of one character is a piece.
inline const uint8_t* space_piece(const uint8_t* p, const uint8_t* q, const uint8_t* end) {
  if (q == end) return q;
  const uint8_t* last = q - 1;
  while ((*last & 0xC0) == 0x80) --last;
  return last > p ? last : q;
}

inline const uint8_t* gpt2_piece(const uint8_t* p, const uint8_t* end) {
  if (*p == '\'') {
    if (const size_t n = contraction(p, end, false)) return p + n;
  }
  const Char first = char_at(p);
  if (first.cls != CharClass::space) return run_of(first.cls, p + first.length, end);
  if (*p == ' ' && p + 1 < end) {
    const Char next = char_at(p + 1);
    if (next.cls != CharClass::space) return run_of(next.cls, p + 1 + next.length, end);
  }
  return space_piece(p, run_of(CharClass::space, p + first.length, end), end);
}

// cl100k with at most `digits` numbers in a piece.
inline const uint8_t* cl100k_piece(const uint8_t* p, const uint8_t* end, int digits) {
  const uint8_t byte = *p;
  if (byte == '\'') {
    if (const size_t n = contraction(p, end, true)) return p + n;
  }
  const Char first = char_at(p);
  if (first.cls == CharClass::letter) return run_of(CharClass::letter, p + first.length, end);
  if (first.cls == CharClass::number) {
    p += first.length;
    for (int i = 1; i < digits && p < end; ++i) {
      const Char c = char_at(p);
      if (c.cls != CharClass::number) break;
      p += c.length;
    }
    return p;
  }
  const uint8_t* second = p + first.length;
  const Char next = second < end ? char_at(second) : Char{CharClass::space, 0};
  if (next.cls == CharClass::letter && !is_newline(byte))
    return run_of(CharClass::letter, second + next.length, end);
  if (first.cls == CharClass::other ||
      (byte == ' ' && second < end && next.cls == CharClass::other)) {
    const uint8_t* q = run_of(CharClass::other, second, end);
    while (q < end && is_newline(*q)) ++q;
    return q;
  }
  const uint8_t* q = p;
  const uint8_t* after_newline = nullptr;
  while (q < end) {
    const Char c = char_at(q);
    if (c.cls != CharClass::space) break;
    q += c.length;
    if (is_newline(*(q - 1))) after_newline = q;
  }
  return after_newline != nullptr ? after_newline : space_piece(p, q, end);
}

template <SplitPattern pattern>
inline const uint8_t* piece_end(const uint8_t* p, const uint8_t* end) {
  if constexpr (pattern == SplitPattern::gpt2) return gpt2_piece(p, end);
  if constexpr (pattern == SplitPattern::cl100k) return cl100k_piece(p, end, 3);
  if constexpr (pattern == SplitPattern::qwen2) return cl100k_piece(p, end, 1);
  return end;
}

}  // namespace muster::split_detail
