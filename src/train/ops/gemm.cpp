#include "train/ops/gemm.h"

#include <algorithm>
#include <type_traits>

#include "base/check.h"
#include "train/ops/gemm_chooser.h"
#include "train/ops/parallel.h"
#include "train/ops/row_kernels.h"

namespace muster::ops {
namespace {

template <class T>
void run_slice(Isa isa, const GemmSlice<T>& slice) {
  if (isa == Isa::avx512) return gemm_slice_avx512(slice);
  if (isa == Isa::avx2) return gemm_slice_avx2(slice);
  gemm_slice_scalar(slice);
}

// Parts are cut at multiples of this many rows or columns, so that threads share few partial tiles.
constexpr int64_t kCut = 96;

void run_vendor(Exec& exec, bool ta, bool tb, int64_t M, int64_t N, int64_t K, const float* A,
                int64_t lda, const float* B, int64_t ldb, float beta, float* C, int64_t ldc,
                const float* bias) {
  exec.vendor(ta, tb, M, N, K, A, lda, B, ldb, beta, C, ldc);
  if (bias == nullptr) return;
  const auto& rows = row_kernels<float>(exec.isa);
  parallel(exec, M, 16, [&](int64_t begin, int64_t end, int) {
    for (int64_t m = begin; m < end; ++m) rows.accumulate(N, bias, C + m * ldc, false);
  });
}

// Whether the vendor's product computes this call; a new shape is measured first.
bool use_vendor(Exec& exec, Trans ta, Trans tb, int64_t M, int64_t N, int64_t K, const float* A,
                int64_t lda, const float* B, int64_t ldb, float beta, float* C, int64_t ldc,
                const float* bias) {
  if (exec.mode != Mode::fast || exec.vendor == nullptr || exec.chooser == nullptr) return false;
  GemmShape shape{ta == Trans::yes, tb == Trans::yes, beta != 0, M, N, K};
  if (const GemmChoice* known = exec.chooser->find(shape)) return *known == GemmChoice::vendor;
  // Measuring overwrites C, so with beta 1 it writes to scratch where that fits, without adding.
  float* out = C;
  int64_t ld = ldc;
  Arena::Scope scope(exec.arena);
  if (beta != 0) {
    const size_t needed = static_cast<size_t>(M) * static_cast<size_t>(N) * sizeof(float);
    const size_t own = kGemmScratchBytes * static_cast<size_t>(exec.team.size());
    if (exec.arena.capacity() - exec.arena.used() < needed + own + 64) {
      exec.chooser->set(shape, GemmChoice::own);
      return false;
    }
    out = exec.arena.take_array<float>(M * N);
    ld = N;
    std::fill_n(out, M * N, 0.0f);
  }
  const GemmChoice choice = exec.chooser->measure(
      shape, [&] { own_gemm(exec, ta, tb, M, N, K, A, lda, B, ldb, beta, out, ld, bias); },
      [&] { run_vendor(exec, shape.ta, shape.tb, M, N, K, A, lda, B, ldb, beta, out, ld, bias); });
  return choice == GemmChoice::vendor;
}

}  // namespace

template <class T>
void own_gemm(Exec& exec, Trans ta, Trans tb, int64_t M, int64_t N, int64_t K, const T* A,
              int64_t lda, const T* B, int64_t ldb, T beta, T* C, int64_t ldc, const T* bias) {
  MUSTER_CHECK(M >= 0 && N >= 0 && K >= 0, M, N, K);
  MUSTER_CHECK(beta == 0 || beta == 1, beta);
  MUSTER_CHECK(lda >= (ta == Trans::yes ? M : K) && ldb >= (tb == Trans::yes ? K : N) && ldc >= N,
               lda, ldb, ldc, M, N, K);
  if (M == 0 || N == 0) return;
  Arena::Scope scope(exec.arena);
  const int threads = exec.team.size();
  auto* scratch =
      static_cast<std::byte*>(exec.arena.take(kGemmScratchBytes * static_cast<size_t>(threads)));
  GemmSlice<T> whole{
      ta == Trans::yes, tb == Trans::yes, 0, M, 0, N, K, A, lda, B, ldb, beta == 1, C, ldc, bias,
      scratch};
  const bool by_rows = M >= N;
  parallel(exec, by_rows ? M : N, kCut, [&](int64_t begin, int64_t end, int member) {
    GemmSlice<T> slice = whole;
    (by_rows ? slice.m0 : slice.n0) = begin;
    (by_rows ? slice.m1 : slice.n1) = end;
    slice.scratch = scratch + kGemmScratchBytes * static_cast<size_t>(member);
    run_slice(exec.isa, slice);
  });
}

template <class T>
void gemm(Exec& exec, Trans ta, Trans tb, int64_t M, int64_t N, int64_t K, const T* A, int64_t lda,
          const T* B, int64_t ldb, T beta, T* C, int64_t ldc, const T* bias) {
  if constexpr (std::is_same_v<T, float>) {
    if (M > 0 && N > 0 && K > 0 &&
        use_vendor(exec, ta, tb, M, N, K, A, lda, B, ldb, beta, C, ldc, bias)) {
      return run_vendor(exec, ta == Trans::yes, tb == Trans::yes, M, N, K, A, lda, B, ldb, beta, C,
                        ldc, bias);
    }
  }
  own_gemm(exec, ta, tb, M, N, K, A, lda, B, ldb, beta, C, ldc, bias);
}

// NOLINTBEGIN(bugprone-macro-parentheses): T is a type
#define MUSTER_INSTANTIATE(T)                                                                  \
  template void own_gemm<T>(Exec&, Trans, Trans, int64_t, int64_t, int64_t, const T*, int64_t, \
                            const T*, int64_t, T, T*, int64_t, const T*);                      \
  template void gemm<T>(Exec&, Trans, Trans, int64_t, int64_t, int64_t, const T*, int64_t,     \
                        const T*, int64_t, T, T*, int64_t, const T*);
MUSTER_INSTANTIATE(float)
MUSTER_INSTANTIATE(double)
#undef MUSTER_INSTANTIATE
// NOLINTEND(bugprone-macro-parentheses)

}  // namespace muster::ops
