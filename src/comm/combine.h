// Element-wise sums and maxima, and the evaluation of a MergePlan over a range of elements. The
// bits are those of one addition at a time in the plan's order, whatever instruction set runs.
//
// Streaming stores bypass the cache for results too large to stay in it; they are ordered (fenced)
// before evaluate returns.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "comm/rank_tree.h"

namespace muster {

enum class ElementType : uint8_t { bytes, f32, f64, i64 };
enum class ReduceOp : uint8_t { sum, max };

size_t size_of(ElementType type);
template <class T>
ElementType element_type();

// Elements evaluated at a time: parts and temporaries of a block stay in the first-level cache.
inline constexpr int64_t kCombineBlock = 1024;
// Scratch that evaluate needs, in bytes.
size_t scratch_bytes(const MergePlan& plan, ElementType type);

// outs[i][0, count) = the plan's result of sources[part][0, count) under `op`. An out may be one of
// the sources (the same address). `scratch`: scratch_bytes, aligned for the type.
void evaluate(const MergePlan& plan, ElementType type, ReduceOp op,
              std::span<const std::byte* const> sources, std::span<std::byte* const> outs,
              int64_t count, bool streaming, std::byte* scratch);

namespace detail {
// outs[i][k] = a[k] + b[k]. The plain loop, and AVX2 with optional streaming stores.
void add_f32(const float* a, const float* b, float* const* outs, size_t n_outs, int64_t count,
             bool streaming);
void add_f32_avx2(const float* a, const float* b, float* const* outs, size_t n_outs, int64_t count,
                  bool streaming);
}  // namespace detail

}  // namespace muster
