// Vec: Lanes<float> (lanes.h) as two AVX2 registers. Included by *_avx2.cpp only.
#pragma once

#include <immintrin.h>

#include "train/ops/lanes.h"

namespace muster::ops::MUSTER_OPS_ISA {

struct Vec {
  using Scalar = float;
  __m256 a, b;  // lanes 0-7, 8-15

  static __m256i first_mask(int64_t n, int from) {
    const __m256i lane =
        _mm256_add_epi32(_mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7), _mm256_set1_epi32(from));
    return _mm256_cmpgt_epi32(_mm256_set1_epi32(static_cast<int>(n)), lane);
  }
  static Vec set(float value) { return {_mm256_set1_ps(value), _mm256_set1_ps(value)}; }
  static Vec zero() { return {_mm256_setzero_ps(), _mm256_setzero_ps()}; }
  static Vec load(const float* from) { return {_mm256_loadu_ps(from), _mm256_loadu_ps(from + 8)}; }
  static Vec load_first(const float* from, int64_t n) {
    return {_mm256_maskload_ps(from, first_mask(n, 0)),
            _mm256_maskload_ps(from + 8, first_mask(n, 8))};
  }
  void store(float* to) const {
    _mm256_storeu_ps(to, a);
    _mm256_storeu_ps(to + 8, b);
  }
  void store_first(float* to, int64_t n) const {
    _mm256_maskstore_ps(to, first_mask(n, 0), a);
    _mm256_maskstore_ps(to + 8, first_mask(n, 8), b);
  }
  Vec first_else(int64_t n, Vec other) const {
    return {_mm256_blendv_ps(other.a, a, _mm256_castsi256_ps(first_mask(n, 0))),
            _mm256_blendv_ps(other.b, b, _mm256_castsi256_ps(first_mask(n, 8)))};
  }

  friend Vec operator+(Vec x, Vec y) { return {_mm256_add_ps(x.a, y.a), _mm256_add_ps(x.b, y.b)}; }
  friend Vec operator-(Vec x, Vec y) { return {_mm256_sub_ps(x.a, y.a), _mm256_sub_ps(x.b, y.b)}; }
  friend Vec operator*(Vec x, Vec y) { return {_mm256_mul_ps(x.a, y.a), _mm256_mul_ps(x.b, y.b)}; }
  friend Vec operator/(Vec x, Vec y) { return {_mm256_div_ps(x.a, y.a), _mm256_div_ps(x.b, y.b)}; }
  friend Vec fma(Vec x, Vec y, Vec z) {
    return {_mm256_fmadd_ps(x.a, y.a, z.a), _mm256_fmadd_ps(x.b, y.b, z.b)};
  }
  friend Vec fnma(Vec x, Vec y, Vec z) {
    return {_mm256_fnmadd_ps(x.a, y.a, z.a), _mm256_fnmadd_ps(x.b, y.b, z.b)};
  }
  friend Vec max(Vec x, Vec y) { return {_mm256_max_ps(x.a, y.a), _mm256_max_ps(x.b, y.b)}; }
  friend Vec min(Vec x, Vec y) { return {_mm256_min_ps(x.a, y.a), _mm256_min_ps(x.b, y.b)}; }
  friend Vec sqrt(Vec x) { return {_mm256_sqrt_ps(x.a), _mm256_sqrt_ps(x.b)}; }
  friend Vec if_less(Vec x, Vec y, Vec yes, Vec no) {
    return {_mm256_blendv_ps(no.a, yes.a, _mm256_cmp_ps(x.a, y.a, _CMP_LT_OQ)),
            _mm256_blendv_ps(no.b, yes.b, _mm256_cmp_ps(x.b, y.b, _CMP_LT_OQ))};
  }
  friend Vec add_exponent(Vec p, Vec t) {
    return {_mm256_castsi256_ps(_mm256_add_epi32(_mm256_castps_si256(p.a),
                                                 _mm256_slli_epi32(_mm256_castps_si256(t.a), 23))),
            _mm256_castsi256_ps(_mm256_add_epi32(_mm256_castps_si256(p.b),
                                                 _mm256_slli_epi32(_mm256_castps_si256(t.b), 23)))};
  }

  friend Vec split_exponent(Vec x, Vec& m) {
    const auto split = [](__m256 y, __m256& rest) {
      const __m256i bits = _mm256_castps_si256(y);
      const __m256i n = _mm256_srai_epi32(
          _mm256_sub_epi32(bits, _mm256_set1_epi32(static_cast<int>(kRootHalf))), 23);
      rest = _mm256_castsi256_ps(_mm256_sub_epi32(bits, _mm256_slli_epi32(n, 23)));
      return _mm256_cvtepi32_ps(n);
    };
    Vec n;
    n.a = split(x.a, m.a);
    n.b = split(x.b, m.b);
    return n;
  }

  float sum() const {
    const __m256 w = _mm256_add_ps(a, b);
    const __m128 x = _mm_add_ps(_mm256_castps256_ps128(w), _mm256_extractf128_ps(w, 1));
    const __m128 y = _mm_add_ps(x, _mm_movehl_ps(x, x));
    return _mm_cvtss_f32(_mm_add_ss(y, _mm_shuffle_ps(y, y, 1)));
  }
  float largest() const {
    const __m256 w = _mm256_max_ps(a, b);
    const __m128 x = _mm_max_ps(_mm256_castps256_ps128(w), _mm256_extractf128_ps(w, 1));
    const __m128 y = _mm_max_ps(x, _mm_movehl_ps(x, x));
    return _mm_cvtss_f32(_mm_max_ss(y, _mm_shuffle_ps(y, y, 1)));
  }
  static constexpr int64_t kSquare = 8;
  static void transpose(const float* from, int64_t ld, int64_t lines, int64_t columns, float* to,
                        int64_t to_ld) {
    __m256 a[8], b[8];
    if (lines >= 8 && columns >= 8) {
#pragma GCC unroll 8
      for (int r = 0; r < 8; ++r) a[r] = _mm256_loadu_ps(from + r * ld);
    } else {
      const __m256i mask = first_mask(columns, 0);
#pragma GCC unroll 8
      for (int r = 0; r < 8; ++r) {
        a[r] = r < lines ? _mm256_maskload_ps(from + r * ld, mask) : _mm256_setzero_ps();
      }
    }
#pragma GCC unroll 4
    for (int r = 0; r < 8; r += 2) {
      b[r] = _mm256_unpacklo_ps(a[r], a[r + 1]);
      b[r + 1] = _mm256_unpackhi_ps(a[r], a[r + 1]);
    }
#pragma GCC unroll 2
    for (int r = 0; r < 8; r += 4) {
      a[r] = _mm256_shuffle_ps(b[r], b[r + 2], 0x44);
      a[r + 1] = _mm256_shuffle_ps(b[r], b[r + 2], 0xee);
      a[r + 2] = _mm256_shuffle_ps(b[r + 1], b[r + 3], 0x44);
      a[r + 3] = _mm256_shuffle_ps(b[r + 1], b[r + 3], 0xee);
    }
#pragma GCC unroll 4
    for (int j = 0; j < 4; ++j) {
      b[j] = _mm256_permute2f128_ps(a[j], a[4 + j], 0x20);
      b[4 + j] = _mm256_permute2f128_ps(a[j], a[4 + j], 0x31);
    }
#pragma GCC unroll 8
    for (int k = 0; k < 8; ++k) {
      if (k < columns) _mm256_storeu_ps(to + k * to_ld, b[k]);
    }
  }
  void add_squares(double* sums) const {
    const __m128 quarters[4] = {_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1),
                                _mm256_castps256_ps128(b), _mm256_extractf128_ps(b, 1)};
    for (int i = 0; i < 4; ++i) {
      const __m256d x = _mm256_cvtps_pd(quarters[i]);
      _mm256_storeu_pd(sums + 4 * i, _mm256_fmadd_pd(x, x, _mm256_loadu_pd(sums + 4 * i)));
    }
  }
};

}  // namespace muster::ops::MUSTER_OPS_ISA
