// Classes of 64 bytes with AVX-512 BW: one register, masks come out as bits.
#if defined(__x86_64__)
#include <immintrin.h>

#include "text/split_blocks.h"

namespace muster {

namespace {

inline ClassBits classify(const uint8_t* p) {
  const __m512i bytes = _mm512_loadu_si512(p);
  const auto byte = [](int c) { return _mm512_set1_epi8(static_cast<char>(c)); };
  const auto in_range = [&](__m512i v, int first, int many) {
    return _mm512_cmplt_epu8_mask(_mm512_sub_epi8(v, byte(first)), byte(many));
  };
  const uint64_t blanks = _mm512_cmpeq_epi8_mask(bytes, byte(' '));
  return {in_range(_mm512_or_si512(bytes, byte(0x20)), 'a', 26),
          in_range(bytes, '0', 10),
          blanks | in_range(bytes, '\t', 5),
          _mm512_cmpeq_epi8_mask(bytes, byte('\n')) | _mm512_cmpeq_epi8_mask(bytes, byte('\r')),
          blanks,
          _mm512_cmpeq_epi8_mask(bytes, byte('\'')),
          _mm512_movepi8_mask(bytes)};
}

}  // namespace

size_t next_pieces_avx512(SplitPattern pattern, PieceEnd slow, const uint8_t* begin,
                          const uint8_t* end, size_t at, size_t* ends, size_t capacity) {
  return pieces_by_blocks(pattern, slow, begin, end, at, ends, capacity, classify);
}

}  // namespace muster
#endif
