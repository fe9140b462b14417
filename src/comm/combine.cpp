#include "comm/combine.h"

#include <algorithm>
#include <cstring>

#include "base/check.h"
#include "base/cpu_features.h"

namespace muster {
namespace {

template <class T>
void add(const T* a, const T* b, T* const* outs, size_t n_outs, int64_t count) {
  T* first = outs[0];
  for (int64_t i = 0; i < count; ++i) {
    if constexpr (std::is_same_v<T, int64_t>)
      first[i] = static_cast<int64_t>(static_cast<uint64_t>(a[i]) + static_cast<uint64_t>(b[i]));
    else
      first[i] = a[i] + b[i];
  }
  for (size_t o = 1; o < n_outs; ++o)
    std::memcpy(outs[o], first, static_cast<size_t>(count) * sizeof(T));
}

template <class T>
void maximum(const T* a, const T* b, T* const* outs, size_t n_outs, int64_t count) {
  T* first = outs[0];
  // A NaN on either side is the result.
  for (int64_t i = 0; i < count; ++i) first[i] = a[i] > b[i] || a[i] != a[i] ? a[i] : b[i];
  for (size_t o = 1; o < n_outs; ++o)
    std::memcpy(outs[o], first, static_cast<size_t>(count) * sizeof(T));
}

template <class T>
void combine(ReduceOp op, const T* a, const T* b, T* const* outs, size_t n_outs, int64_t count,
             bool streaming) {
  if (op == ReduceOp::max) return maximum(a, b, outs, n_outs, count);
  if constexpr (std::is_same_v<T, float>) {
    static const bool avx2 = cpu_features().avx2;
    return avx2 ? detail::add_f32_avx2(a, b, outs, n_outs, count, streaming)
                : detail::add_f32(a, b, outs, n_outs, count, streaming);
  } else {
    return add(a, b, outs, n_outs, count);
  }
}

template <class T>
void evaluate_typed(const MergePlan& plan, ReduceOp op, std::span<const std::byte* const> sources,
                    std::span<std::byte* const> outs, int64_t count, bool streaming,
                    std::byte* scratch) {
  constexpr size_t kMaxOuts = 2 + 256;  // own, staging, peers on one host
  MUSTER_CHECK(!outs.empty() && outs.size() <= kMaxOuts, outs.size());
  T* const temporaries = reinterpret_cast<T*>(scratch);
  for (int64_t begin = 0; begin < count; begin += kCombineBlock) {
    const int64_t n = std::min(kCombineBlock, count - begin);
    const auto slot = [&](int32_t s) -> const T* {
      if (s < plan.parts)
        return reinterpret_cast<const T*>(sources[static_cast<size_t>(s)]) + begin;
      return temporaries + (s - plan.parts) * kCombineBlock;
    };
    T* final_outs[kMaxOuts];
    for (size_t o = 0; o < outs.size(); ++o) final_outs[o] = reinterpret_cast<T*>(outs[o]) + begin;
    if (plan.steps.empty()) {
      for (size_t o = 0; o < outs.size(); ++o)
        if (final_outs[o] != slot(plan.result))
          std::memcpy(final_outs[o], slot(plan.result), static_cast<size_t>(n) * sizeof(T));
      continue;
    }
    for (size_t i = 0; i + 1 < plan.steps.size(); ++i) {
      const MergeStep& step = plan.steps[i];
      T* const out = temporaries + (step.out - plan.parts) * kCombineBlock;
      combine<T>(op, slot(step.left), slot(step.right), &out, 1, n, false);
    }
    const MergeStep& last = plan.steps.back();
    combine<T>(op, slot(last.left), slot(last.right), final_outs, outs.size(), n, streaming);
  }
}

}  // namespace

size_t size_of(ElementType type) {
  switch (type) {
    case ElementType::bytes:
      return 1;
    case ElementType::f32:
      return 4;
    case ElementType::f64:
    case ElementType::i64:
      return 8;
  }
  MUSTER_CHECK(false, static_cast<int>(type));
  return 0;
}

template <>
ElementType element_type<float>() {
  return ElementType::f32;
}
template <>
ElementType element_type<double>() {
  return ElementType::f64;
}
template <>
ElementType element_type<int64_t>() {
  return ElementType::i64;
}

size_t scratch_bytes(const MergePlan& plan, ElementType type) {
  return static_cast<size_t>(plan.slots - plan.parts) * kCombineBlock * size_of(type);
}

void evaluate(const MergePlan& plan, ElementType type, ReduceOp op,
              std::span<const std::byte* const> sources, std::span<std::byte* const> outs,
              int64_t count, bool streaming, std::byte* scratch) {
  MUSTER_CHECK(sources.size() == static_cast<size_t>(plan.parts), sources.size(), plan.parts);
  if (count == 0) return;
  switch (type) {
    case ElementType::f32:
      return evaluate_typed<float>(plan, op, sources, outs, count, streaming, scratch);
    case ElementType::f64:
      return evaluate_typed<double>(plan, op, sources, outs, count, streaming, scratch);
    case ElementType::i64:
      return evaluate_typed<int64_t>(plan, op, sources, outs, count, streaming, scratch);
    case ElementType::bytes:
      break;
  }
  MUSTER_CHECK(false, static_cast<int>(type));
}

namespace detail {

void add_f32(const float* a, const float* b, float* const* outs, size_t n_outs, int64_t count,
             bool /*streaming: needs no fence when it does not happen*/) {
  add<float>(a, b, outs, n_outs, count);
}

}  // namespace detail
}  // namespace muster
