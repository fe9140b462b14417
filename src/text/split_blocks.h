// Cutting ASCII text 64 bytes at a time: every byte's class becomes a bit, and the starts of pieces
// follow from a few operations on these words, without a branch per piece. Included by the files of
// one instruction set each; everything here has internal linkage, so that no function compiled for
// one processor is linked into code for another. Internal to the room.
//
// A window begins where a piece begins, so nothing before it matters. Inside it (L letter, N
// number, W whitespace, R newline, X other; all ASCII) a byte begins a piece by these rules:
//   X  unless X or a space stands before it
//   L  unless L, or what leads it, stands before it: cl100k a whitespace but newline, or an X that
//   begins
//      a piece; gpt2 a space
//   N  gpt2: unless N or a space stands before it; cl100k: every third of a run; qwen2: always
//   W  at the start of its run (cl100k: after the newlines that X takes along), at the run's last
//   byte
//      unless that is a newline, and (cl100k) behind the run's last newline
// Contractions are looked at one by one. What depends on bytes behind the window is left to the
// next.
#pragma once

#include <cstddef>
#include <cstdint>

#include "text/split.h"

namespace muster {

// The end of the piece at `p`, one character at a time.
using PieceEnd = const uint8_t* (*)(const uint8_t* p, const uint8_t* end);

size_t next_pieces_avx2(SplitPattern pattern, PieceEnd slow, const uint8_t* begin,
                        const uint8_t* end, size_t at, size_t* ends, size_t capacity);
size_t next_pieces_avx512(SplitPattern pattern, PieceEnd slow, const uint8_t* begin,
                          const uint8_t* end, size_t at, size_t* ends, size_t capacity);

namespace {

// Bit i is byte i of the window.
struct ClassBits {
  uint64_t letters, numbers, spaces, newlines, blanks, quotes, not_ascii;
};

// Length of the contraction at the quote `p`, of which three bytes are readable; 0 if there is
// none.
[[maybe_unused]] inline unsigned ascii_contraction(const uint8_t* p, bool ignore_case) {
  const unsigned fold = ignore_case ? 0x20 : 0;
  const unsigned a = p[1] | fold, b = p[2] | fold;
  if (a == 's' || a == 't' || a == 'm' || a == 'd') return 2;
  if ((a == 'r' && b == 'e') || (a == 'v' && b == 'e') || (a == 'l' && b == 'l')) return 3;
  return 0;
}

// Starts of pieces in a window of `size` (<= 64) ASCII bytes at `p`, bit 0 among them.
template <SplitPattern pattern>
inline uint64_t piece_starts(const ClassBits& c, const uint8_t* p, unsigned size) {
  constexpr bool gpt2 = pattern == SplitPattern::gpt2;
  const uint64_t inside = size == 64 ? ~uint64_t{0} : (uint64_t{1} << size) - 1;
  const uint64_t l = c.letters, n = c.numbers, w = c.spaces, r = c.newlines;
  const uint64_t x = inside & ~(l | n | w);
  const uint64_t after_blank = c.blanks << 1;
  const uint64_t x_starts = x & ~(x << 1) & ~after_blank;

  uint64_t l_starts, n_starts, w_starts;
  if constexpr (gpt2) {
    l_starts = l & ~(l << 1) & ~after_blank;
    n_starts = n & ~(n << 1) & ~after_blank;
    w_starts = w & (~(w << 1) | ~(w >> 1));
  } else {
    l_starts = l & ~((l | (w & ~r) | x_starts) << 1);
    if constexpr (pattern == SplitPattern::qwen2) {
      n_starts = n;
    } else {
      n_starts = n & ~(n << 1);
      const uint64_t fourth = n & n << 1 & n << 2 & n << 3;
      for (uint64_t t = n_starts << 3 & fourth; t != 0; t = t << 3 & fourth) n_starts |= t;
    }
    // Adding the first bit of a run of ones to the run carries out behind it and clears it.
    const uint64_t taken = r & ~(r + (x << 1 & r));
    const uint64_t own = w & ~taken;
    const uint64_t tail = w & ~r;
    uint64_t behind_newline = tail & (r << 1);
    // Not the last newline of its run, where whitespace behind it ends at another newline.
    for (uint64_t no = (tail + behind_newline) & ~tail & r; no != 0; no &= no - 1) {
      const uint64_t below = behind_newline & ((no & -no) - 1);
      behind_newline &= ~(uint64_t{1} << (63 - __builtin_clzll(below)));
    }
    w_starts = (own & ~(own << 1)) | (tail & ~(w >> 1)) | behind_newline;
  }
  uint64_t starts = l_starts | n_starts | w_starts | x_starts;
  for (uint64_t q = x_starts & c.quotes; q != 0; q &= q - 1) {
    const auto at = static_cast<unsigned>(__builtin_ctzll(q));
    if (at + 3 >= size) {  // too near the end to tell
      starts &= (uint64_t{2} << at) - 1;
      break;
    }
    const unsigned length = ascii_contraction(p + at, !gpt2);
    if (length == 0) continue;
    starts &= ~(uint64_t{6} << at);
    starts |= uint64_t{1} << (at + length);
  }
  // Where the last run of whitespace ends is unknown: of it, only its start is sure.
  if (w >> (size - 1) & 1) {
    const uint64_t others = inside & ~w;
    const unsigned run = others == 0 ? 0 : 64 - static_cast<unsigned>(__builtin_clzll(others));
    starts &= (uint64_t{2} << run) - 1;
  }
  return starts | 1;
}

// Pieces of one call. `classify(p)` reads 64 bytes.
template <SplitPattern pattern, class Classify>
inline size_t pieces_by_blocks(PieceEnd slow, const uint8_t* begin, const uint8_t* end,
                               const uint8_t* p, size_t* ends, size_t capacity,
                               const Classify& classify) {
  size_t count = 0;
  while (p < end && count < capacity) {
    if (end - p > 64 && *p < 0x80) {
      ClassBits bits = classify(p);
      unsigned size = 64;
      if (bits.not_ascii != 0) {
        size = static_cast<unsigned>(__builtin_ctzll(bits.not_ascii));
        const uint64_t inside = (uint64_t{1} << size) - 1;
        bits.letters &= inside;
        bits.numbers &= inside;
        bits.spaces &= inside;
        bits.newlines &= inside;
        bits.blanks &= inside;
        bits.quotes &= inside;
      }
      uint64_t starts = piece_starts<pattern>(bits, p, size) & ~uint64_t{1};
      if (starts != 0) {
        const auto offset = static_cast<size_t>(p - begin);
        size_t last = 0;
        do {
          last = static_cast<size_t>(__builtin_ctzll(starts));
          ends[count++] = offset + last;
          starts &= starts - 1;
        } while (starts != 0 && count < capacity);
        p += last;
        continue;
      }
    }
    p = slow(p, end);
    ends[count++] = static_cast<size_t>(p - begin);
  }
  return count;
}

template <class Classify>
inline size_t pieces_by_blocks(SplitPattern pattern, PieceEnd slow, const uint8_t* begin,
                               const uint8_t* end, size_t at, size_t* ends, size_t capacity,
                               const Classify& classify) {
  const uint8_t* p = begin + at;
  if (pattern == SplitPattern::gpt2)
    return pieces_by_blocks<SplitPattern::gpt2>(slow, begin, end, p, ends, capacity, classify);
  if (pattern == SplitPattern::cl100k)
    return pieces_by_blocks<SplitPattern::cl100k>(slow, begin, end, p, ends, capacity, classify);
  return pieces_by_blocks<SplitPattern::qwen2>(slow, begin, end, p, ends, capacity, classify);
}

}  // namespace
}  // namespace muster
