// The two ends of the model: embedding tables and the loss.
#include <cstring>

#include "base/check.h"
#include "train/ops/kernels.h"
#include "train/ops/parallel.h"
#include "train/ops/row_kernels.h"

namespace muster::ops {

template <class T>
void embedding_forward(Exec& exec, int64_t tokens, int64_t d, const int32_t* ids, const T* table,
                       const int32_t* positions, const T* position_table, T* y) {
  MUSTER_CHECK(tokens >= 0 && d >= 1, tokens, d);
  const auto& rows = row_kernels<T>(exec.isa);
  parallel(exec, tokens, 16, [&](int64_t begin, int64_t end, int) {
    for (int64_t t = begin; t < end; ++t) {
      const T* word = table + ids[t] * d;
      if (position_table == nullptr) {
        rows.accumulate(d, word, y + t * d, true);
      } else {
        rows.add(d, word, position_table + positions[t] * d, y + t * d);
      }
    }
  });
}

template <class T>
void embedding_backward(Exec& exec, int64_t tokens, int64_t d, int64_t rows, const int32_t* ids,
                        const T* dy, T beta, T* dtable) {
  MUSTER_CHECK(tokens >= 0 && d >= 1 && rows >= 1, tokens, d, rows);
  for (int64_t t = 0; t < tokens; ++t) MUSTER_CHECK(ids[t] >= 0 && ids[t] < rows, t, ids[t], rows);
  const auto& kernels = row_kernels<T>(exec.isa);
  // Each thread owns a range of rows and passes over all tokens, so a row's order is token order.
  parallel(exec, rows, 1, [&](int64_t begin, int64_t end, int) {
    if (beta == 0) {
      std::memset(dtable + begin * d, 0, static_cast<size_t>((end - begin) * d) * sizeof(T));
    }
    for (int64_t t = 0; t < tokens; ++t) {
      if (ids[t] < begin || ids[t] >= end) continue;
      kernels.accumulate(d, dy + t * d, dtable + ids[t] * d, false);
    }
  });
}

template <class T>
void softmax_cross_entropy(Exec& exec, int64_t tokens, int64_t V, int64_t ld, T* logits,
                           const int32_t* targets, T scale, T* loss) {
  MUSTER_CHECK(tokens >= 0 && V >= 1 && ld >= V, tokens, V, ld);
  for (int64_t t = 0; t < tokens; ++t) MUSTER_CHECK(targets[t] < V, t, targets[t], V);
  parallel(exec, tokens, 1, [&](int64_t begin, int64_t end, int) {
    row_kernels<T>(exec.isa).cross_entropy(end - begin, V, ld, logits + begin * ld, targets + begin,
                                           scale, loss + begin);
  });
}

// NOLINTBEGIN(bugprone-macro-parentheses): T is a type
#define MUSTER_INSTANTIATE(T)                                                                     \
  template void embedding_forward<T>(Exec&, int64_t, int64_t, const int32_t*, const T*,           \
                                     const int32_t*, const T*, T*);                               \
  template void embedding_backward<T>(Exec&, int64_t, int64_t, int64_t, const int32_t*, const T*, \
                                      T, T*);                                                     \
  template void softmax_cross_entropy<T>(Exec&, int64_t, int64_t, int64_t, T*, const int32_t*, T, \
                                         T*);
MUSTER_INSTANTIATE(float)
MUSTER_INSTANTIATE(double)
#undef MUSTER_INSTANTIATE
// NOLINTEND(bugprone-macro-parentheses)

}  // namespace muster::ops
