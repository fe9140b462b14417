#include <immintrin.h>

#include "comm/combine.h"

namespace muster::detail {
namespace {

bool aligned(const void* p) {
  return reinterpret_cast<uintptr_t>(p) % 32 == 0;
}

template <bool kStreaming>
void add_vectors(const float* a, const float* b, float* const* outs, size_t n_outs,
                 int64_t vectors) {
  for (int64_t v = 0; v < vectors; ++v) {
    const __m256 sum = _mm256_add_ps(_mm256_loadu_ps(a + 8 * v), _mm256_loadu_ps(b + 8 * v));
    for (size_t o = 0; o < n_outs; ++o) {
      if constexpr (kStreaming)
        _mm256_stream_ps(outs[o] + 8 * v, sum);
      else
        _mm256_storeu_ps(outs[o] + 8 * v, sum);
    }
  }
}

}  // namespace

void add_f32_avx2(const float* a, const float* b, float* const* outs, size_t n_outs, int64_t count,
                  bool streaming) {
  for (size_t o = 0; o < n_outs; ++o) streaming = streaming && aligned(outs[o]);
  const int64_t vectors = count / 8;
  if (streaming) {
    add_vectors<true>(a, b, outs, n_outs, vectors);
    _mm_sfence();  // before whoever is told that the result is there
  } else {
    add_vectors<false>(a, b, outs, n_outs, vectors);
  }
  for (int64_t i = 8 * vectors; i < count; ++i) {
    const float sum = a[i] + b[i];
    for (size_t o = 0; o < n_outs; ++o) outs[o][i] = sum;
  }
}

}  // namespace muster::detail
