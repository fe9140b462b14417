// Which vector instructions this process may use. Decided once by the caller and passed down, so
// that tests run every level that the machine has and compare.
#pragma once

#include <cstdint>

#include "base/cpu_features.h"

namespace muster {

enum class CpuLevel : uint8_t { scalar, avx2, avx512 };

// The best level of this machine.
inline CpuLevel best_cpu_level() {
  const CpuFeatures features = cpu_features();
  return features.avx512 ? CpuLevel::avx512 : features.avx2 ? CpuLevel::avx2 : CpuLevel::scalar;
}

}  // namespace muster
