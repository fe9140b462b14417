// CpuFeatures: which vector instruction sets this processor and operating system let a program
// use. The one definition of what a file x_avx2.cpp or x_avx512.cpp needs: every instruction set
// that cmake/MusterRoom.cmake lets the compiler use there (MUSTER_AVX2_FLAGS, MUSTER_AVX512_FLAGS).
// A pure read of CPUID; safe from any thread.
#pragma once

namespace muster {

struct CpuFeatures {
  bool avx2 = false;    // AVX2, FMA, BMI1, BMI2, F16C, LZCNT, POPCNT
  bool avx512 = false;  // AVX-512 F, BW, DQ, VL, CD (and all of avx2)
};

CpuFeatures cpu_features();

}  // namespace muster
