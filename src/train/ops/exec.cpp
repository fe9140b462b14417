#include "train/ops/exec.h"

#include <fmt/format.h>

#include "base/cpu_features.h"

namespace muster::ops {

Isa best_isa() {
  const CpuFeatures features = cpu_features();
  return features.avx512 ? Isa::avx512 : features.avx2 ? Isa::avx2 : Isa::scalar;
}

std::string_view isa_name(Isa isa) {
  return isa == Isa::avx512 ? "avx512" : isa == Isa::avx2 ? "avx2" : "scalar";
}

Result<Isa> isa_from(std::string_view name, Isa best) {
  if (name.empty()) return best;
  for (Isa isa : {Isa::scalar, Isa::avx2, Isa::avx512}) {
    if (isa_name(isa) != name) continue;
    if (isa > best) {
      return Error(Code::unsupported, fmt::format("MUSTER_ISA={}: this machine offers {} at most",
                                                  name, isa_name(best)));
    }
    return isa;
  }
  return Error(Code::invalid_argument,
               fmt::format("MUSTER_ISA={}: use scalar, avx2 or avx512", name));
}

}  // namespace muster::ops
