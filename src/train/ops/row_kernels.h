// RowKernels: the single-threaded bodies of the kernels as a table of functions, one table per
// instruction set and type. The bodies are templates over a 16-lane vector type (rows_*.h),
// compiled in row_kernels_{scalar,avx2,avx512}.cpp; the tables of one type give equal bits.
// Splitting over threads, scratch memory and trees across blocks of tokens live in the public
// kernels (norm.cpp, attention.cpp, mlp.cpp, ends.cpp, vectors.cpp), which call these on ranges.
#pragma once

#include <cstdint>

#include "train/ops/exec.h"
#include "train/ops/kernels.h"

namespace muster::ops {

// Queries and keys are cut into blocks of this many tokens by position inside the segment.
inline constexpr int64_t kAttentionBlock = 64;

// One unit of attention work: the query heads of one key/value head in one segment. Pointers are at
// the segment's first token; strides count elements.
template <class T>
struct AttentionItem {
  int64_t length;          // tokens of the segment
  int64_t queries_per_kv;  // H / G
  int64_t c;
  T scale;
  const T *q, *k, *v;  // [length, c] rows c apart; query heads q_head apart
  int64_t q_head;      // elements between query heads (also of dq)
  T *o, *lse;          // o rows o_row apart, heads c apart; lse heads lse_head apart
  int64_t o_row, lse_head;
  const T *o_in, *lse_in, *dout;  // backward: strides as o and lse
  T *dq, *dk, *dv;
  T* scratch;  // attention_scratch() elements
};

// Elements of scratch for segments of at most `length` tokens.
constexpr int64_t attention_scratch(int64_t length, int64_t c, int64_t queries_per_kv) {
  const int64_t padded = (length + kAttentionBlock - 1) / kAttentionBlock * kAttentionBlock;
  const int64_t wide = (c + 15) / 16 * 16;
  return padded * c + 2 * kAttentionBlock * kAttentionBlock + 2 * kAttentionBlock * wide +
         4 * kAttentionBlock + queries_per_kv * length;
}

template <class T>
struct RowKernels {
  void (*rms_forward)(int64_t rows, int64_t d, const T* x, const T* residual, const T* weight,
                      T eps, T* h, T* y, T* rstd);
  // dweight: the sum over these rows, in order, is written (not added); null = not wanted.
  void (*rms_backward)(int64_t rows, int64_t d, const T* dy, const T* h, const T* rstd,
                       const T* weight, const T* dresidual, T* dh, T* dweight);
  void (*layer_forward)(int64_t rows, int64_t d, const T* x, const T* residual, const T* weight,
                        const T* bias, T eps, T* h, T* y, T* mean, T* rstd);
  void (*layer_backward)(int64_t rows, int64_t d, const T* dy, const T* h, const T* mean,
                         const T* rstd, const T* weight, const T* dresidual, T* dh, T* dweight,
                         T* dbias);
  void (*column_sums)(int64_t rows, int64_t d, const T* dy, T* sums);  // in order, written
  // y += x; y = x when `overwrite`.
  void (*accumulate)(int64_t n, const T* x, T* y, bool overwrite);
  void (*add)(int64_t n, const T* a, const T* b, T* out);

  // Tokens [begin, end) of the whole [tokens] arrays.
  void (*rope_forward)(int64_t begin, int64_t end, int64_t tokens, int64_t H, int64_t G, int64_t c,
                       const T* qkv, const int32_t* positions, const T* cos_sin, T* q, T* k, T* v);
  void (*rope_backward)(int64_t begin, int64_t end, int64_t tokens, int64_t H, int64_t G, int64_t c,
                        const T* dq, const T* dk, const T* dv, const int32_t* positions,
                        const T* cos_sin, T* dqkv);
  void (*attention_forward)(const AttentionItem<T>& item);
  void (*attention_backward)(const AttentionItem<T>& item);
  // q: queries_per_kv rows c apart; k, v: `length` rows; o: rows c apart.
  void (*attention_decode)(const AttentionItem<T>& item);

  void (*swiglu_forward)(int64_t rows, int64_t F, const T* gate_up, T* y);
  void (*swiglu_backward)(int64_t rows, int64_t F, const T* gate_up, const T* dy, T* dgate_up);
  void (*gelu_forward)(int64_t n, const T* x, T* y);
  void (*gelu_backward)(int64_t n, const T* x, const T* dy, T* dx);

  void (*cross_entropy)(int64_t rows, int64_t V, int64_t ld, T* logits, const int32_t* targets,
                        T scale, T* loss);
  // 16 lanes in double, then their tree; n <= 4,096.
  double (*square_sum)(int64_t n, const T* x);
  void (*adamw)(int64_t n, const AdamWStep& step, const T* gradient, T* parameter, T* m, T* v);
};

template <class T>
const RowKernels<T>& row_kernels(Isa isa);

// The tables themselves, each defined in its own file.
const RowKernels<float>& scalar_row_kernels_float();
const RowKernels<double>& scalar_row_kernels_double();
const RowKernels<float>& avx2_row_kernels_float();
const RowKernels<double>& avx2_row_kernels_double();
const RowKernels<float>& avx512_row_kernels_float();
const RowKernels<double>& avx512_row_kernels_double();

}  // namespace muster::ops
