// The kernels of the training step, on plain row-major memory. Every kernel exists for float and
// for double; double is the scalar reference, float dispatches to scalar, AVX2 or AVX-512 code that
// gives equal bits (tested).
//
// Rules (strict): no vendor library, no libm transcendental, fused multiply-add only where written
// (std::fma or the intrinsic), reductions over a row in 16 virtual lanes (lane l takes elements l,
// l + 16, …; then the fixed tree
// ((0+8)+(4+12))+… of lanes.h), reductions over tokens in fixed row blocks with a balanced tree
// across. So bits depend on the inputs alone, never on thread count, CPU type, batch slicing or
// neighbouring rows.
//
// Shapes: T tokens of one micro-batch, flattened; d model width; H query heads, G key/value heads,
// c head width; F MLP width; V vocabulary. A micro-batch is a list of *segments* (documents or
// parts of them): tokens segment[s] … segment[s + 1] - 1 attend causally inside their segment only.
//
// Threads: kernels split work over exec.team; scratch comes from exec.arena and is given back on
// return. Nothing is allocated on the heap. Pointers must not overlap unless a parameter says "may
// be".
#pragma once

#include <cstdint>
#include <span>

#include "train/ops/exec.h"

namespace muster::ops {

// ---- matrix products (gemm.h has the order of additions)
// --------------------------------------------------------

enum class Trans : uint8_t { no, yes };

// C[M,N] = op(A)[M,K] · op(B)[K,N] + beta * C (+ bias[N], when not null). beta is 0 or 1; with 0, C
// is written and never read. Strict: kKBlocks blocks of K with boundaries floor(i K / 8), in-order
// fma inside a block from +0, balanced tree across, then + C (beta = 1), then + bias. In fast mode
// the vendor may be chosen per shape (exec.h).
template <class T>
void gemm(Exec& exec, Trans ta, Trans tb, int64_t M, int64_t N, int64_t K, const T* A, int64_t lda,
          const T* B, int64_t ldb, T beta, T* C, int64_t ldc, const T* bias = nullptr);

inline constexpr int kKBlocks = 8;

// ---- scratch
// ------------------------------------------------------------------------------------------------------

// What any one kernel here takes from exec.arena at most, in bytes, for a model of these sizes
// (element size as T; `widest` = the widest row given to a norm or bias_backward; `largest` = the
// most elements given to sum_of_squares). Add the outputs of chunked calls yourself. In fast mode,
// a product with beta 1 met for the first time measures into M N floats of scratch where they fit.
struct ScratchSizes {
  int threads;
  int64_t tokens, longest_segment, H, G, c, widest, largest;
};
template <class T>
size_t scratch_bytes(const ScratchSizes& sizes);

// ---- norms
// ------------------------------------------------------------------------------------------------------

// h = x + residual (residual may be null: h = x, and h may be null then); y = h * rstd * weight;
// rstd[t] = 1 / sqrt(mean(h²) + eps). x, residual, h, y: [T, d]; weight: [d]; rstd: [T]. h may be x
// or residual.
template <class T>
void rms_norm_forward(Exec& exec, int64_t tokens, int64_t d, const T* x, const T* residual,
                      const T* weight, T eps, T* h, T* y, T* rstd);

// dh = gradient through the norm + dresidual (may be null); dweight[d] = or += the sum over tokens
// (beta 0 or 1). dh may be dy or dresidual. dweight may be null.
template <class T>
void rms_norm_backward(Exec& exec, int64_t tokens, int64_t d, const T* dy, const T* h,
                       const T* rstd, const T* weight, const T* dresidual, T* dh, T* dweight,
                       T beta);

// LayerNorm with bias, the same conventions. mean, rstd: [T].
template <class T>
void layer_norm_forward(Exec& exec, int64_t tokens, int64_t d, const T* x, const T* residual,
                        const T* weight, const T* bias, T eps, T* h, T* y, T* mean, T* rstd);
template <class T>
void layer_norm_backward(Exec& exec, int64_t tokens, int64_t d, const T* dy, const T* h,
                         const T* mean, const T* rstd, const T* weight, const T* dresidual, T* dh,
                         T* dweight, T* dbias, T beta);

// ---- attention
// --------------------------------------------------------------------------------------------------

// Splits qkv [T, (H + 2 G) c] into head-major q [H, T, c], k [G, T, c], v [G, T, c] and rotates q
// and k by positions[t] (half-split pairing: element i with i + c/2). cos_sin: [positions, c]
// table, row p = cos(p w_i) for i < c/2, then sin; null = no rotation (GPT-2). c is even.
template <class T>
void rope_split_forward(Exec& exec, int64_t tokens, int64_t H, int64_t G, int64_t c, const T* qkv,
                        const int32_t* positions, const T* cos_sin, T* q, T* k, T* v);
// The inverse: dq, dk, dv -> dqkv.
template <class T>
void rope_split_backward(Exec& exec, int64_t tokens, int64_t H, int64_t G, int64_t c, const T* dq,
                         const T* dk, const T* dv, const int32_t* positions, const T* cos_sin,
                         T* dqkv);

// Causal attention inside segments, H / G query heads per key/value head. o: [T, H c] token-major;
// lse: [H, T] (log of the sum of exponentials of the scaled scores). Blocks that are masked out are
// skipped. Key blocks are cut by position inside the segment, each with its own maximum, merged in
// a fixed order: a row's bits depend on its own segment only, so a decode step (attention_decode)
// gives the same bits as the full pass.
template <class T>
void attention_forward(Exec& exec, std::span<const int32_t> segments, int64_t tokens, int64_t H,
                       int64_t G, int64_t c, T scale, const T* q, const T* k, const T* v, T* o,
                       T* lse);
template <class T>
void attention_backward(Exec& exec, std::span<const int32_t> segments, int64_t tokens, int64_t H,
                        int64_t G, int64_t c, T scale, const T* q, const T* k, const T* v,
                        const T* o, const T* lse, const T* dout, T* dq, T* dk, T* dv);
// One query token per sequence against its cache: q [H, c]; k_cache, v_cache [G, capacity, c],
// `length` valid rows (the query's own included); o [H c].
template <class T>
void attention_decode(Exec& exec, int64_t length, int64_t capacity, int64_t H, int64_t G, int64_t c,
                      T scale, const T* q, const T* k_cache, const T* v_cache, T* o);

// ---- MLP
// --------------------------------------------------------------------------------------------------------

// gate_up: [T, 2 F], gate first. y = silu(gate) * up: [T, F].
template <class T>
void swiglu_forward(Exec& exec, int64_t tokens, int64_t F, const T* gate_up, T* y);
// dgate_up may be gate_up.
template <class T>
void swiglu_backward(Exec& exec, int64_t tokens, int64_t F, const T* gate_up, const T* dy,
                     T* dgate_up);

// tanh form ("gelu_new" of GPT-2), elementwise on [T, F]. dx may be x.
template <class T>
void gelu_forward(Exec& exec, int64_t tokens, int64_t F, const T* x, T* y);
template <class T>
void gelu_backward(Exec& exec, int64_t tokens, int64_t F, const T* x, const T* dy, T* dx);

// ---- ends of the model
// ------------------------------------------------------------------------------------------

// y[t] = table[ids[t]] (+ position_table[positions[t]], when not null).
template <class T>
void embedding_forward(Exec& exec, int64_t tokens, int64_t d, const int32_t* ids, const T* table,
                       const int32_t* positions, const T* position_table, T* y);
// dtable[rows, d]: to each row (0 when beta is 0: every row is written) the rows of dy with that id
// are added one by one in token order. The same function serves position tables.
template <class T>
void embedding_backward(Exec& exec, int64_t tokens, int64_t d, int64_t rows, const int32_t* ids,
                        const T* dy, T beta, T* dtable);

// Cross-entropy of logits [T, V] (leading dimension ld >= V), in place: on return logits holds
// scale * (softmax - onehot), or is unchanged when scale is 0 (evaluation). loss[t] = -log
// p(target); targets[t] < 0 is ignored: loss 0, gradient 0. Call it per chunk of tokens so that
// [all T, V] never exists.
template <class T>
void softmax_cross_entropy(Exec& exec, int64_t tokens, int64_t V, int64_t ld, T* logits,
                           const int32_t* targets, T scale, T* loss);

// ---- vectors
// ----------------------------------------------------------------------------------------------------

// y += x and out = a + b, elementwise (n elements); the inner node of every ordered sum.
template <class T>
void add_in_place(Exec& exec, int64_t n, const T* x, T* y);
template <class T>
void add(Exec& exec, int64_t n, const T* a, const T* b, T* out);  // out may be a or b

// dbias[d] = or += column sums of dy [T, d], in fixed row blocks.
template <class T>
void bias_backward(Exec& exec, int64_t tokens, int64_t d, const T* dy, T beta, T* dbias);

// Sum of squares in double: 16 lanes inside fixed blocks of 4,096 elements, balanced tree across
// blocks.
template <class T>
double sum_of_squares(Exec& exec, int64_t n, const T* x);

// One fused AdamW pass (decoupled weight decay, Loshchilov & Hutter): g' = g * gradient_scale;
// m = m + (1 - beta1)(g' - m); v = beta2 v + (1 - beta2) g'²; p = p - lr weight_decay p - lr (m /
// bias1) / (sqrt(v / bias2) + eps), with bias_i = 1 - beta_i^step given by the caller. The order of
// operations is PyTorch's fused kernel's. n elements; all arrays T.
struct AdamWStep {
  double lr, beta1, beta2, eps, weight_decay, bias1, bias2, gradient_scale;
};
template <class T>
void adamw(Exec& exec, int64_t n, const AdamWStep& step, const T* gradient, T* parameter, T* m,
           T* v);

}  // namespace muster::ops
