// Classes of 64 bytes with AVX2: two registers.
#if defined(__x86_64__)
#include <immintrin.h>

#include "text/split_blocks.h"

namespace muster {

namespace {

struct Halves {
  __m256i low, high;
};

inline __m256i byte(int c) {
  return _mm256_set1_epi8(static_cast<char>(c));
}
inline uint64_t bits_of(__m256i low, __m256i high) {
  return static_cast<uint32_t>(_mm256_movemask_epi8(low)) |
         static_cast<uint64_t>(static_cast<uint32_t>(_mm256_movemask_epi8(high))) << 32;
}
inline uint64_t equal(const Halves& v, int c) {
  return bits_of(_mm256_cmpeq_epi8(v.low, byte(c)), _mm256_cmpeq_epi8(v.high, byte(c)));
}
// v in [first, first + many), unsigned: the difference is its own minimum with many - 1.
inline uint64_t in_range(const Halves& v, int first, int many) {
  const auto half = [&](__m256i bytes) {
    const __m256i from = _mm256_sub_epi8(bytes, byte(first));
    return _mm256_cmpeq_epi8(from, _mm256_min_epu8(from, byte(many - 1)));
  };
  return bits_of(half(v.low), half(v.high));
}

inline ClassBits classify(const uint8_t* p) {
  const Halves v = {_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)),
                    _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p + 32))};
  const Halves folded = {_mm256_or_si256(v.low, byte(0x20)), _mm256_or_si256(v.high, byte(0x20))};
  const uint64_t blanks = equal(v, ' ');
  return {in_range(folded, 'a', 26),
          in_range(v, '0', 10),
          blanks | in_range(v, '\t', 5),
          equal(v, '\n') | equal(v, '\r'),
          blanks,
          equal(v, '\''),
          bits_of(v.low, v.high)};
}

}  // namespace

size_t next_pieces_avx2(SplitPattern pattern, PieceEnd slow, const uint8_t* begin,
                        const uint8_t* end, size_t at, size_t* ends, size_t capacity) {
  return pieces_by_blocks(pattern, slow, begin, end, at, ends, capacity, classify);
}

}  // namespace muster
#endif
