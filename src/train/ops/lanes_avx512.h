// Vec: Lanes<float> (lanes.h) as one AVX-512 register. Included by *_avx512.cpp only.
#pragma once

// GCC 12 warns about its own intrinsics, which start from an undefined register on purpose.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#pragma GCC diagnostic ignored "-Wuninitialized"
#include <immintrin.h>
#pragma GCC diagnostic pop

#include "train/ops/lanes.h"

namespace muster::ops::MUSTER_OPS_ISA {

struct Vec {
  using Scalar = float;
  __m512 v;

  static __mmask16 first_mask(int64_t n) {
    return static_cast<__mmask16>(_bzhi_u32(0xffff, static_cast<uint32_t>(n)));
  }
  static Vec set(float value) { return {_mm512_set1_ps(value)}; }
  static Vec zero() { return {_mm512_setzero_ps()}; }
  static Vec load(const float* from) { return {_mm512_loadu_ps(from)}; }
  static Vec load_first(const float* from, int64_t n) {
    return {_mm512_maskz_loadu_ps(first_mask(n), from)};
  }
  void store(float* to) const { _mm512_storeu_ps(to, v); }
  void store_first(float* to, int64_t n) const { _mm512_mask_storeu_ps(to, first_mask(n), v); }
  Vec first_else(int64_t n, Vec other) const {
    return {_mm512_mask_mov_ps(other.v, first_mask(n), v)};
  }

  friend Vec operator+(Vec x, Vec y) { return {_mm512_add_ps(x.v, y.v)}; }
  friend Vec operator-(Vec x, Vec y) { return {_mm512_sub_ps(x.v, y.v)}; }
  friend Vec operator*(Vec x, Vec y) { return {_mm512_mul_ps(x.v, y.v)}; }
  friend Vec operator/(Vec x, Vec y) { return {_mm512_div_ps(x.v, y.v)}; }
  friend Vec fma(Vec x, Vec y, Vec z) { return {_mm512_fmadd_ps(x.v, y.v, z.v)}; }
  friend Vec fnma(Vec x, Vec y, Vec z) { return {_mm512_fnmadd_ps(x.v, y.v, z.v)}; }
  friend Vec max(Vec x, Vec y) { return {_mm512_max_ps(x.v, y.v)}; }
  friend Vec min(Vec x, Vec y) { return {_mm512_min_ps(x.v, y.v)}; }
  friend Vec sqrt(Vec x) { return {_mm512_sqrt_ps(x.v)}; }
  friend Vec if_less(Vec x, Vec y, Vec yes, Vec no) {
    return {_mm512_mask_mov_ps(no.v, _mm512_cmp_ps_mask(x.v, y.v, _CMP_LT_OQ), yes.v)};
  }
  friend Vec add_exponent(Vec p, Vec t) {
    return {_mm512_castsi512_ps(_mm512_add_epi32(_mm512_castps_si512(p.v),
                                                 _mm512_slli_epi32(_mm512_castps_si512(t.v), 23)))};
  }

  friend Vec split_exponent(Vec x, Vec& m) {
    const __m512i bits = _mm512_castps_si512(x.v);
    const __m512i n = _mm512_srai_epi32(
        _mm512_sub_epi32(bits, _mm512_set1_epi32(static_cast<int>(kRootHalf))), 23);
    m.v = _mm512_castsi512_ps(_mm512_sub_epi32(bits, _mm512_slli_epi32(n, 23)));
    return {_mm512_cvtepi32_ps(n)};
  }

  float sum() const {
    const __m256 w = _mm256_add_ps(_mm512_castps512_ps256(v), _mm512_extractf32x8_ps(v, 1));
    const __m128 x = _mm_add_ps(_mm256_castps256_ps128(w), _mm256_extractf128_ps(w, 1));
    const __m128 y = _mm_add_ps(x, _mm_movehl_ps(x, x));
    return _mm_cvtss_f32(_mm_add_ss(y, _mm_shuffle_ps(y, y, 1)));
  }
  float largest() const {
    const __m256 w = _mm256_max_ps(_mm512_castps512_ps256(v), _mm512_extractf32x8_ps(v, 1));
    const __m128 x = _mm_max_ps(_mm256_castps256_ps128(w), _mm256_extractf128_ps(w, 1));
    const __m128 y = _mm_max_ps(x, _mm_movehl_ps(x, x));
    return _mm_cvtss_f32(_mm_max_ss(y, _mm_shuffle_ps(y, y, 1)));
  }
  static constexpr int64_t kSquare = 16;
  static void transpose(const float* from, int64_t ld, int64_t lines, int64_t columns, float* to,
                        int64_t to_ld) {
    __m512 a[16], b[16];
    if (lines >= 16 && columns >= 16) {
#pragma GCC unroll 16
      for (int r = 0; r < 16; ++r) a[r] = _mm512_loadu_ps(from + r * ld);
    } else {
      const __mmask16 mask = first_mask(columns < 16 ? columns : 16);
#pragma GCC unroll 16
      for (int r = 0; r < 16; ++r) {
        a[r] = r < lines ? _mm512_maskz_loadu_ps(mask, from + r * ld) : _mm512_setzero_ps();
      }
    }
    // Pairs of lines, then fours, inside each 128-bit quarter …
#pragma GCC unroll 8
    for (int r = 0; r < 16; r += 2) {
      b[r] = _mm512_unpacklo_ps(a[r], a[r + 1]);
      b[r + 1] = _mm512_unpackhi_ps(a[r], a[r + 1]);
    }
#pragma GCC unroll 4
    for (int r = 0; r < 16; r += 4) {
      const auto low = [](__m512 x, __m512 y) {
        return _mm512_castpd_ps(_mm512_unpacklo_pd(_mm512_castps_pd(x), _mm512_castps_pd(y)));
      };
      const auto high = [](__m512 x, __m512 y) {
        return _mm512_castpd_ps(_mm512_unpackhi_pd(_mm512_castps_pd(x), _mm512_castps_pd(y)));
      };
      a[r] = low(b[r], b[r + 2]);
      a[r + 1] = high(b[r], b[r + 2]);
      a[r + 2] = low(b[r + 1], b[r + 3]);
      a[r + 3] = high(b[r + 1], b[r + 3]);
    }
    // … then the quarters: a[4 i + j] holds columns j, 4 + j, 8 + j, 12 + j of lines 4 i … 4 i + 3.
#pragma GCC unroll 4
    for (int j = 0; j < 4; ++j) {
      const __m512 x = _mm512_shuffle_f32x4(a[j], a[4 + j], 0x88);
      const __m512 y = _mm512_shuffle_f32x4(a[j], a[4 + j], 0xdd);
      const __m512 z = _mm512_shuffle_f32x4(a[8 + j], a[12 + j], 0x88);
      const __m512 w = _mm512_shuffle_f32x4(a[8 + j], a[12 + j], 0xdd);
      b[j] = _mm512_shuffle_f32x4(x, z, 0x88);
      b[4 + j] = _mm512_shuffle_f32x4(y, w, 0x88);
      b[8 + j] = _mm512_shuffle_f32x4(x, z, 0xdd);
      b[12 + j] = _mm512_shuffle_f32x4(y, w, 0xdd);
    }
    if (columns >= 16) {
#pragma GCC unroll 16
      for (int k = 0; k < 16; ++k) _mm512_storeu_ps(to + k * to_ld, b[k]);
    } else {
#pragma GCC unroll 16
      for (int k = 0; k < 16; ++k) {
        if (k < columns) _mm512_storeu_ps(to + k * to_ld, b[k]);
      }
    }
  }
  void add_squares(double* sums) const {
    const __m512d x = _mm512_cvtps_pd(_mm512_castps512_ps256(v));
    const __m512d y = _mm512_cvtps_pd(_mm512_extractf32x8_ps(v, 1));
    _mm512_storeu_pd(sums, _mm512_fmadd_pd(x, x, _mm512_loadu_pd(sums)));
    _mm512_storeu_pd(sums + 8, _mm512_fmadd_pd(y, y, _mm512_loadu_pd(sums + 8)));
  }
};

}  // namespace muster::ops::MUSTER_OPS_ISA
