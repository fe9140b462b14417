#define MUSTER_XXH3_KERNELS xxh3_kernels_baseline
#include "base/xxh3_kernels.inc"
