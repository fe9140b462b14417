// The inner loops of XXH3 compiled once per instruction set; hash.cpp picks at run time. All give
// equal hashes and share one layout of the streaming state. Only for hash.cpp.
#pragma once

#include <cstddef>
#include <cstdint>

namespace muster {

struct Xxh3Kernels {
  void (*update)(void* state, const void* data, size_t length);  // XXH3_128bits_update
  void (*hash)(const void* data, size_t length, uint64_t* low, uint64_t* high);
};

Xxh3Kernels xxh3_kernels_baseline();
#if defined(__x86_64__)
Xxh3Kernels xxh3_kernels_avx2();
Xxh3Kernels xxh3_kernels_avx512();
#endif

}  // namespace muster
