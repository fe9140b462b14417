#if defined(__x86_64__)
#define MUSTER_XXH3_KERNELS xxh3_kernels_avx2
#include "base/xxh3_kernels.inc"
#endif
