// CpuFeatures: which vector instruction sets this processor and operating system let a program
// use. A pure read of CPUID; safe from any thread.
#pragma once

namespace muster {

struct CpuFeatures {
  bool avx2 = false;    // AVX2, FMA, BMI1, BMI2
  bool avx512 = false;  // AVX-512 F, BW, DQ, VL, CD (and all of avx2)
};

CpuFeatures cpu_features();

}  // namespace muster
