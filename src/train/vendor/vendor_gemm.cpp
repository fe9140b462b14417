#include "train/vendor/vendor_gemm.h"

#include <ATen/Parallel.h>
#include <ATen/Version.h>
#include <dlfcn.h>
#include <torch/headeronly/version.h>

#include <limits>

#include "base/check.h"

namespace muster {
namespace {

// Fortran's interface: column-major, everything by reference, 32-bit integers.
using Sgemm = void (*)(const char* transa, const char* transb, const int* m, const int* n,
                       const int* k, const float* alpha, const float* a, const int* lda,
                       const float* b, const int* ldb, const float* beta, float* c, const int* ldc);

Sgemm find_sgemm() {
  return reinterpret_cast<Sgemm>(dlsym(RTLD_DEFAULT, "sgemm_"));
}

int narrow(int64_t n) {
  MUSTER_CHECK(n >= 0 && n <= std::numeric_limits<int>::max(), n);
  return static_cast<int>(n);
}

// A row-major matrix is its transpose in column-major order, so C = A B becomes C' = B' A'.
void multiply(bool ta, bool tb, int64_t M, int64_t N, int64_t K, const float* A, int64_t lda,
              const float* B, int64_t ldb, float beta, float* C, int64_t ldc) {
  static const Sgemm sgemm = find_sgemm();
  const char first = tb ? 'T' : 'N', second = ta ? 'T' : 'N';
  const int n = narrow(N), m = narrow(M), k = narrow(K), b_row = narrow(ldb), a_row = narrow(lda),
            c_row = narrow(ldc);
  const float alpha = 1;
  sgemm(&first, &second, &n, &m, &k, &alpha, B, &b_row, A, &a_row, &beta, C, &c_row);
}

}  // namespace

ops::VendorGemm vendor_gemm() {
  return find_sgemm() == nullptr ? nullptr : &multiply;
}

void set_vendor_threads(int threads) {
  MUSTER_CHECK(threads >= 1, threads);
  at::set_num_threads(threads);  // OpenMP's, and MKL's own count
}

std::string vendor_version() {
  std::string mkl = at::get_mkl_version();
  for (char& c : mkl) {
    if (c == '\n') c = ' ';
  }
  // No fmt here: the wheel's include folder carries another version of it.
  return "PyTorch " + std::to_string(TORCH_VERSION_MAJOR) + "." +
         std::to_string(TORCH_VERSION_MINOR) + "." + std::to_string(TORCH_VERSION_PATCH) + ", " +
         mkl + ", " + at::get_cpu_capability();
}

}  // namespace muster
