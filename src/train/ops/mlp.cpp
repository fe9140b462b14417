#include "base/check.h"
#include "train/ops/kernels.h"
#include "train/ops/parallel.h"
#include "train/ops/row_kernels.h"

namespace muster::ops {

template <class T>
void swiglu_forward(Exec& exec, int64_t tokens, int64_t F, const T* gate_up, T* y) {
  MUSTER_CHECK(tokens >= 0 && F >= 1, tokens, F);
  parallel(exec, tokens, 4, [&](int64_t begin, int64_t end, int) {
    row_kernels<T>(exec.isa).swiglu_forward(end - begin, F, gate_up + begin * 2 * F, y + begin * F);
  });
}

template <class T>
void swiglu_backward(Exec& exec, int64_t tokens, int64_t F, const T* gate_up, const T* dy,
                     T* dgate_up) {
  MUSTER_CHECK(tokens >= 0 && F >= 1, tokens, F);
  parallel(exec, tokens, 4, [&](int64_t begin, int64_t end, int) {
    row_kernels<T>(exec.isa).swiglu_backward(end - begin, F, gate_up + begin * 2 * F,
                                             dy + begin * F, dgate_up + begin * 2 * F);
  });
}

template <class T>
void gelu_forward(Exec& exec, int64_t tokens, int64_t F, const T* x, T* y) {
  MUSTER_CHECK(tokens >= 0 && F >= 1, tokens, F);
  parallel(exec, tokens * F, 4096, [&](int64_t begin, int64_t end, int) {
    row_kernels<T>(exec.isa).gelu_forward(end - begin, x + begin, y + begin);
  });
}

template <class T>
void gelu_backward(Exec& exec, int64_t tokens, int64_t F, const T* x, const T* dy, T* dx) {
  MUSTER_CHECK(tokens >= 0 && F >= 1, tokens, F);
  parallel(exec, tokens * F, 4096, [&](int64_t begin, int64_t end, int) {
    row_kernels<T>(exec.isa).gelu_backward(end - begin, x + begin, dy + begin, dx + begin);
  });
}

// NOLINTBEGIN(bugprone-macro-parentheses): T is a type
#define MUSTER_INSTANTIATE(T)                                                        \
  template void swiglu_forward<T>(Exec&, int64_t, int64_t, const T*, T*);            \
  template void swiglu_backward<T>(Exec&, int64_t, int64_t, const T*, const T*, T*); \
  template void gelu_forward<T>(Exec&, int64_t, int64_t, const T*, T*);              \
  template void gelu_backward<T>(Exec&, int64_t, int64_t, const T*, const T*, T*);
MUSTER_INSTANTIATE(float)
MUSTER_INSTANTIATE(double)
#undef MUSTER_INSTANTIATE
// NOLINTEND(bugprone-macro-parentheses)

}  // namespace muster::ops
