// Exec: what a kernel runs with: threads, scratch memory, instruction set, mode. One per worker
// thread that issues kernels; not shared.
#pragma once

#include <cstdint>
#include <string_view>

#include "base/result.h"
#include "sys/arena.h"
#include "sys/thread_team.h"

namespace muster::ops {

enum class Isa : uint8_t { scalar, avx2, avx512 };
// The widest set this CPU has; MUSTER_ISA=scalar|avx2|avx512 lowers it (read once by the caller,
// not here).
Isa best_isa();
std::string_view isa_name(Isa isa);
// The set called `name` ("" = best). Errors: invalid_argument for an unknown name, unsupported for
// one above `best`.
Result<Isa> isa_from(std::string_view name, Isa best);

// strict: own kernels, fixed orders, equal bits everywhere. fast: vendor or own matrix product per
// shape.
enum class Mode : uint8_t { strict, fast };

// C = op(A) op(B) + beta C in row-major, as kernels.h's gemm without bias. Bound by the trainer to
// libtorch's vendor routine (train/vendor); null where libtorch is absent.
using VendorGemm = void (*)(bool ta, bool tb, int64_t M, int64_t N, int64_t K, const float* A,
                            int64_t lda, const float* B, int64_t ldb, float beta, float* C,
                            int64_t ldc);

class GemmChooser;  // gemm_chooser.h: measured choice, vendor or own, per shape; recorded with the
                    // run

struct Exec {
  ThreadTeam& team;
  Arena& arena;  // scratch; kernels take and give back within a call
  Isa isa;
  Mode mode;
  VendorGemm vendor = nullptr;
  GemmChooser* chooser = nullptr;  // fast mode: null = own always
};

}  // namespace muster::ops
