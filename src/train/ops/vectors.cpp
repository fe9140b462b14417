// Sums of vectors and the optimiser's pass.
#include "base/check.h"
#include "train/ops/kernels.h"
#include "train/ops/parallel.h"
#include "train/ops/row_kernels.h"

namespace muster::ops {
namespace {

constexpr int64_t kSquareBlock = 4096;
constexpr int64_t kGrain = 16384;  // elements a thread takes at least

}  // namespace

template <class T>
void add_in_place(Exec& exec, int64_t n, const T* x, T* y) {
  parallel(exec, n, kGrain, [&](int64_t begin, int64_t end, int) {
    row_kernels<T>(exec.isa).accumulate(end - begin, x + begin, y + begin, false);
  });
}

template <class T>
void add(Exec& exec, int64_t n, const T* a, const T* b, T* out) {
  parallel(exec, n, kGrain, [&](int64_t begin, int64_t end, int) {
    row_kernels<T>(exec.isa).add(end - begin, a + begin, b + begin, out + begin);
  });
}

template <class T>
double sum_of_squares(Exec& exec, int64_t n, const T* x) {
  MUSTER_CHECK(n >= 0, n);
  const int64_t blocks = (n + kSquareBlock - 1) / kSquareBlock;
  if (blocks == 0) return 0;
  Arena::Scope scope(exec.arena);
  double* sums = exec.arena.take_array<double>(blocks);
  parallel(exec, blocks, 4, [&](int64_t begin, int64_t end, int) {
    for (int64_t b = begin; b < end; ++b) {
      const int64_t first = b * kSquareBlock, left = n - first;
      sums[b] =
          row_kernels<T>(exec.isa).square_sum(left < kSquareBlock ? left : kSquareBlock, x + first);
    }
  });
  for (int64_t distance = 1; distance < blocks; distance *= 2) {
    for (int64_t b = 0; b + distance < blocks; b += 2 * distance) sums[b] += sums[b + distance];
  }
  return sums[0];
}

template <class T>
void adamw(Exec& exec, int64_t n, const AdamWStep& step, const T* gradient, T* parameter, T* m,
           T* v) {
  MUSTER_CHECK(n >= 0 && step.bias1 > 0 && step.bias2 > 0, n, step.bias1, step.bias2);
  parallel(exec, n, kGrain, [&](int64_t begin, int64_t end, int) {
    row_kernels<T>(exec.isa).adamw(end - begin, step, gradient + begin, parameter + begin,
                                   m + begin, v + begin);
  });
}

// NOLINTBEGIN(bugprone-macro-parentheses): T is a type
#define MUSTER_INSTANTIATE(T)                                   \
  template void add_in_place<T>(Exec&, int64_t, const T*, T*);  \
  template void add<T>(Exec&, int64_t, const T*, const T*, T*); \
  template double sum_of_squares<T>(Exec&, int64_t, const T*);  \
  template void adamw<T>(Exec&, int64_t, const AdamWStep&, const T*, T*, T*, T*);
MUSTER_INSTANTIATE(float)
MUSTER_INSTANTIATE(double)
#undef MUSTER_INSTANTIATE
// NOLINTEND(bugprone-macro-parentheses)

}  // namespace muster::ops
