// Own matrix product, strict: the bits of C depend on A, B, K, beta, C and bias alone, never on M,
// N, thread count, instruction set or neighbouring rows and columns.
//
// Order of additions for one element: K is cut into kKBlocks blocks with boundaries floor(i K / 8);
// a block is one chain of fused multiply-adds in k order from +0 (an empty block is +0); the eight
// sums are added in a balanced tree, ((0+1)+(2+3))+((4+5)+(6+7)); then + C when beta is 1; then +
// bias.
//
// Parts: KPlan here walks K in cache-sized chunks; gemm_slice.h packs and multiplies, compiled per
// instruction set; gemm.cpp splits M or N over threads and applies the mode.
#pragma once

#include <cstddef>
#include <cstdint>

#include "train/ops/kernels.h"

namespace muster::ops {

// The end of K-block i, i in [0, kKBlocks).
constexpr int64_t k_block_begin(int64_t K, int i) {
  return K / kKBlocks * i + K % kKBlocks * i / kKBlocks;
}

// One piece of K that is packed at a time: either `blocks` (a power of two) whole K-blocks, or part
// of one block. Partial sums of pieces are kept in a few slots per tile of C and folded in tree
// order.
struct KChunk {
  int64_t begin = 0, end = 0;
  int64_t ends[kKBlocks] = {};  // end of each block in this chunk, relative to begin
  int blocks = 1;
  bool resumes = false;     // the block began in an earlier chunk: its sums are in slot `slot`
  bool stays_open = false;  // the block goes on in the next chunk: sums go to slot `slot`
  int slot = 0;             // first free slot before this chunk
  int folds = 0;            // slots slot - 1, slot - 2, … added on completion
  bool last = false;        // the result is C
};

struct KPlan {
  int64_t K = 0;
  int blocks_per_chunk = 1;      // 1, 2, 4 or 8
  int64_t chunks_per_block = 1;  // more than 1 only when blocks_per_chunk is 1
  int64_t longest = 0;           // of any chunk

  // `limit` (>= 1) is the longest chunk wanted.
  static KPlan make(int64_t K, int64_t limit);
  int64_t chunks() const { return kKBlocks / blocks_per_chunk * chunks_per_block; }
  int slots() const;  // per tile of C
  KChunk chunk(int64_t i) const;
};

// A rectangle of C computed by one thread: rows [m0, m1), columns [n0, n1).
template <class T>
struct GemmSlice {
  bool ta, tb;
  int64_t m0, m1, n0, n1, K;
  const T* A;
  int64_t lda;
  const T* B;
  int64_t ldb;
  bool add_c;
  T* C;
  int64_t ldc;
  const T* bias;
  std::byte* scratch;  // kGemmScratchBytes, 64-byte aligned
};

// What each thread takes from the arena while a product runs.
inline constexpr size_t kGemmScratchBytes = size_t{10} << 20;

void gemm_slice_scalar(const GemmSlice<float>& slice);
void gemm_slice_scalar(const GemmSlice<double>& slice);
void gemm_slice_avx2(const GemmSlice<float>& slice);
void gemm_slice_avx2(const GemmSlice<double>& slice);
void gemm_slice_avx512(const GemmSlice<float>& slice);
void gemm_slice_avx512(const GemmSlice<double>& slice);

// The own product whatever the mode (gemm() of kernels.h may choose the vendor's).
template <class T>
void own_gemm(Exec& exec, Trans ta, Trans tb, int64_t M, int64_t N, int64_t K, const T* A,
              int64_t lda, const T* B, int64_t ldb, T beta, T* C, int64_t ldc, const T* bias);

}  // namespace muster::ops
