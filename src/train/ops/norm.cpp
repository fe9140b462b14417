#include "base/check.h"
#include "train/ops/kernels.h"
#include "train/ops/row_blocks.h"

namespace muster::ops {
namespace {

template <class T>
const T* row(const T* p, int64_t t, int64_t d) {
  return p == nullptr ? nullptr : p + t * d;
}
template <class T>
T* row(T* p, int64_t t, int64_t d) {
  return p == nullptr ? nullptr : p + t * d;
}

template <class T>
T* take_partial(Exec& exec, const T* wanted, int64_t tokens, int64_t d) {
  return wanted == nullptr ? nullptr : exec.arena.take_array<T>(row_blocks(tokens) * d);
}

void check_shape(int64_t tokens, int64_t d) {
  MUSTER_CHECK(tokens >= 0 && d >= 1, tokens, d);
}

}  // namespace

template <class T>
void rms_norm_forward(Exec& exec, int64_t tokens, int64_t d, const T* x, const T* residual,
                      const T* weight, T eps, T* h, T* y, T* rstd) {
  check_shape(tokens, d);
  MUSTER_CHECK(residual == nullptr || h != nullptr, "a norm with residual needs h");
  const auto& rows = row_kernels<T>(exec.isa);
  parallel(exec, tokens, 8, [&](int64_t begin, int64_t end, int) {
    rows.rms_forward(end - begin, d, row(x, begin, d), row(residual, begin, d), weight, eps,
                     row(h, begin, d), row(y, begin, d), rstd + begin);
  });
}

template <class T>
void rms_norm_backward(Exec& exec, int64_t tokens, int64_t d, const T* dy, const T* h,
                       const T* rstd, const T* weight, const T* dresidual, T* dh, T* dweight,
                       T beta) {
  check_shape(tokens, d);
  Arena::Scope scope(exec.arena);
  T* partial = take_partial(exec, dweight, tokens, d);
  const auto& rows = row_kernels<T>(exec.isa);
  each_row_block(exec, tokens, [&](int64_t block, int64_t t, int64_t n) {
    rows.rms_backward(n, d, row(dy, t, d), row(h, t, d), rstd + t, weight, row(dresidual, t, d),
                      row(dh, t, d), row(partial, block, d));
  });
  fold_row_blocks(exec, row_blocks(tokens), d, partial, beta, dweight);
}

template <class T>
void layer_norm_forward(Exec& exec, int64_t tokens, int64_t d, const T* x, const T* residual,
                        const T* weight, const T* bias, T eps, T* h, T* y, T* mean, T* rstd) {
  check_shape(tokens, d);
  MUSTER_CHECK(residual == nullptr || h != nullptr, "a norm with residual needs h");
  const auto& rows = row_kernels<T>(exec.isa);
  parallel(exec, tokens, 8, [&](int64_t begin, int64_t end, int) {
    rows.layer_forward(end - begin, d, row(x, begin, d), row(residual, begin, d), weight, bias, eps,
                       row(h, begin, d), row(y, begin, d), mean + begin, rstd + begin);
  });
}

template <class T>
void layer_norm_backward(Exec& exec, int64_t tokens, int64_t d, const T* dy, const T* h,
                         const T* mean, const T* rstd, const T* weight, const T* dresidual, T* dh,
                         T* dweight, T* dbias, T beta) {
  check_shape(tokens, d);
  Arena::Scope scope(exec.arena);
  T* partial_weight = take_partial(exec, dweight, tokens, d);
  T* partial_bias = take_partial(exec, dbias, tokens, d);
  const auto& rows = row_kernels<T>(exec.isa);
  each_row_block(exec, tokens, [&](int64_t block, int64_t t, int64_t n) {
    rows.layer_backward(n, d, row(dy, t, d), row(h, t, d), mean + t, rstd + t, weight,
                        row(dresidual, t, d), row(dh, t, d), row(partial_weight, block, d),
                        row(partial_bias, block, d));
  });
  fold_row_blocks(exec, row_blocks(tokens), d, partial_weight, beta, dweight);
  fold_row_blocks(exec, row_blocks(tokens), d, partial_bias, beta, dbias);
}

template <class T>
void bias_backward(Exec& exec, int64_t tokens, int64_t d, const T* dy, T beta, T* dbias) {
  check_shape(tokens, d);
  Arena::Scope scope(exec.arena);
  T* partial = take_partial(exec, dbias, tokens, d);
  const auto& rows = row_kernels<T>(exec.isa);
  each_row_block(exec, tokens, [&](int64_t block, int64_t t, int64_t n) {
    rows.column_sums(n, d, row(dy, t, d), row(partial, block, d));
  });
  fold_row_blocks(exec, row_blocks(tokens), d, partial, beta, dbias);
}

// NOLINTBEGIN(bugprone-macro-parentheses): T is a type
#define MUSTER_INSTANTIATE(T)                                                                     \
  template void rms_norm_forward<T>(Exec&, int64_t, int64_t, const T*, const T*, const T*, T, T*, \
                                    T*, T*);                                                      \
  template void rms_norm_backward<T>(Exec&, int64_t, int64_t, const T*, const T*, const T*,       \
                                     const T*, const T*, T*, T*, T);                              \
  template void layer_norm_forward<T>(Exec&, int64_t, int64_t, const T*, const T*, const T*,      \
                                      const T*, T, T*, T*, T*, T*);                               \
  template void layer_norm_backward<T>(Exec&, int64_t, int64_t, const T*, const T*, const T*,     \
                                       const T*, const T*, const T*, T*, T*, T*, T);              \
  template void bias_backward<T>(Exec&, int64_t, int64_t, const T*, T, T*);
MUSTER_INSTANTIATE(float)
MUSTER_INSTANTIATE(double)
#undef MUSTER_INSTANTIATE
// NOLINTEND(bugprone-macro-parentheses)

}  // namespace muster::ops
