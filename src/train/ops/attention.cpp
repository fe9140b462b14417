#include <algorithm>

#include "base/check.h"
#include "train/ops/kernels.h"
#include "train/ops/parallel.h"
#include "train/ops/row_kernels.h"

namespace muster::ops {
namespace {

void check_heads(int64_t tokens, int64_t H, int64_t G, int64_t c) {
  MUSTER_CHECK(tokens >= 0 && G >= 1 && H >= G && H % G == 0 && c >= 1, tokens, H, G, c);
}

// Segments are increasing offsets from 0 to tokens. Returns the longest.
int64_t check_segments(std::span<const int32_t> segments, int64_t tokens) {
  MUSTER_CHECK(!segments.empty() && segments.front() == 0 && segments.back() == tokens,
               segments.size(), tokens, "segments must begin with 0 and end with tokens");
  int64_t longest = 0;
  for (size_t s = 1; s < segments.size(); ++s) {
    MUSTER_CHECK(segments[s - 1] <= segments[s], s, segments[s - 1], segments[s]);
    longest = std::max<int64_t>(longest, segments[s] - segments[s - 1]);
  }
  return longest;
}

// Calls body(first token, length, g, scratch) for every (segment, key/value head), in an order that
// gives each thread one contiguous run of tokens' work.
template <class T, class Body>
void each_item(Exec& exec, std::span<const int32_t> segments, int64_t tokens, int64_t H, int64_t G,
               int64_t c, const Body& body) {
  const int64_t longest = check_segments(segments, tokens);
  Arena::Scope scope(exec.arena);
  const int64_t size = (attention_scratch(longest, c, H / G) + 15) / 16 * 16;
  T* scratch = exec.arena.take_array<T>(size * exec.team.size());
  const int64_t items = static_cast<int64_t>(segments.size() - 1) * G;
  parallel(exec, items, 1, [&](int64_t begin, int64_t end, int member) {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t first = segments[static_cast<size_t>(i / G)];
      const int64_t length = segments[static_cast<size_t>(i / G) + 1] - first;
      if (length > 0) body(first, length, i % G, scratch + member * size);
    }
  });
}

}  // namespace

template <class T>
void rope_split_forward(Exec& exec, int64_t tokens, int64_t H, int64_t G, int64_t c, const T* qkv,
                        const int32_t* positions, const T* cos_sin, T* q, T* k, T* v) {
  check_heads(tokens, H, G, c);
  MUSTER_CHECK(cos_sin == nullptr || c % 2 == 0, c, "rotation needs an even head width");
  const auto& rows = row_kernels<T>(exec.isa);
  parallel(exec, tokens, 8, [&](int64_t begin, int64_t end, int) {
    rows.rope_forward(begin, end, tokens, H, G, c, qkv, positions, cos_sin, q, k, v);
  });
}

template <class T>
void rope_split_backward(Exec& exec, int64_t tokens, int64_t H, int64_t G, int64_t c, const T* dq,
                         const T* dk, const T* dv, const int32_t* positions, const T* cos_sin,
                         T* dqkv) {
  check_heads(tokens, H, G, c);
  MUSTER_CHECK(cos_sin == nullptr || c % 2 == 0, c, "rotation needs an even head width");
  const auto& rows = row_kernels<T>(exec.isa);
  parallel(exec, tokens, 8, [&](int64_t begin, int64_t end, int) {
    rows.rope_backward(begin, end, tokens, H, G, c, dq, dk, dv, positions, cos_sin, dqkv);
  });
}

template <class T>
void attention_forward(Exec& exec, std::span<const int32_t> segments, int64_t tokens, int64_t H,
                       int64_t G, int64_t c, T scale, const T* q, const T* k, const T* v, T* o,
                       T* lse) {
  check_heads(tokens, H, G, c);
  MUSTER_CHECK(scale > 0, scale);
  const auto& rows = row_kernels<T>(exec.isa);
  const int64_t group = H / G;
  each_item<T>(exec, segments, tokens, H, G, c,
               [&](int64_t first, int64_t length, int64_t g, T* scratch) {
                 AttentionItem<T> a{};
                 a.length = length;
                 a.queries_per_kv = group;
                 a.c = c;
                 a.scale = scale;
                 a.q_head = tokens * c;
                 a.q = q + g * group * a.q_head + first * c;
                 a.k = k + (g * tokens + first) * c;
                 a.v = v + (g * tokens + first) * c;
                 a.o_row = H * c;
                 a.o = o + first * a.o_row + g * group * c;
                 a.lse_head = tokens;
                 a.lse = lse + g * group * tokens + first;
                 a.scratch = scratch;
                 rows.attention_forward(a);
               });
}

template <class T>
void attention_backward(Exec& exec, std::span<const int32_t> segments, int64_t tokens, int64_t H,
                        int64_t G, int64_t c, T scale, const T* q, const T* k, const T* v,
                        const T* o, const T* lse, const T* dout, T* dq, T* dk, T* dv) {
  check_heads(tokens, H, G, c);
  MUSTER_CHECK(scale > 0, scale);
  const auto& rows = row_kernels<T>(exec.isa);
  const int64_t group = H / G;
  each_item<T>(exec, segments, tokens, H, G, c,
               [&](int64_t first, int64_t length, int64_t g, T* scratch) {
                 AttentionItem<T> a{};
                 a.length = length;
                 a.queries_per_kv = group;
                 a.c = c;
                 a.scale = scale;
                 a.q_head = tokens * c;
                 const int64_t at_q = g * group * a.q_head + first * c;
                 const int64_t at_k = (g * tokens + first) * c;
                 a.q = q + at_q;
                 a.k = k + at_k;
                 a.v = v + at_k;
                 a.o_row = H * c;
                 const int64_t at_o = first * a.o_row + g * group * c;
                 a.o_in = o + at_o;
                 a.dout = dout + at_o;
                 a.lse_head = tokens;
                 a.lse_in = lse + g * group * tokens + first;
                 a.dq = dq + at_q;
                 a.dk = dk + at_k;
                 a.dv = dv + at_k;
                 a.scratch = scratch;
                 rows.attention_backward(a);
               });
}

template <class T>
void attention_decode(Exec& exec, int64_t length, int64_t capacity, int64_t H, int64_t G, int64_t c,
                      T scale, const T* q, const T* k_cache, const T* v_cache, T* o) {
  check_heads(1, H, G, c);
  MUSTER_CHECK(length >= 1 && length <= capacity && scale > 0, length, capacity, scale);
  const auto& rows = row_kernels<T>(exec.isa);
  const int64_t group = H / G;
  Arena::Scope scope(exec.arena);
  const int64_t size = (attention_scratch(kAttentionBlock, c, group) + 15) / 16 * 16;
  T* scratch = exec.arena.take_array<T>(size * exec.team.size());
  parallel(exec, G, 1, [&](int64_t begin, int64_t end, int member) {
    for (int64_t g = begin; g < end; ++g) {
      AttentionItem<T> a{};
      a.length = length;
      a.queries_per_kv = group;
      a.c = c;
      a.scale = scale;
      a.q = q + g * group * c;
      a.k = k_cache + g * capacity * c;
      a.v = v_cache + g * capacity * c;
      a.o = o + g * group * c;
      a.scratch = scratch + member * size;
      rows.attention_decode(a);
    }
  });
}

// NOLINTBEGIN(bugprone-macro-parentheses): T is a type
#define MUSTER_INSTANTIATE(T)                                                                     \
  template void rope_split_forward<T>(Exec&, int64_t, int64_t, int64_t, int64_t, const T*,        \
                                      const int32_t*, const T*, T*, T*, T*);                      \
  template void rope_split_backward<T>(Exec&, int64_t, int64_t, int64_t, int64_t, const T*,       \
                                       const T*, const T*, const int32_t*, const T*, T*);         \
  template void attention_forward<T>(Exec&, std::span<const int32_t>, int64_t, int64_t, int64_t,  \
                                     int64_t, T, const T*, const T*, const T*, T*, T*);           \
  template void attention_backward<T>(Exec&, std::span<const int32_t>, int64_t, int64_t, int64_t, \
                                      int64_t, T, const T*, const T*, const T*, const T*,         \
                                      const T*, const T*, T*, T*, T*);                            \
  template void attention_decode<T>(Exec&, int64_t, int64_t, int64_t, int64_t, int64_t, T,        \
                                    const T*, const T*, const T*, T*);
MUSTER_INSTANTIATE(float)
MUSTER_INSTANTIATE(double)
#undef MUSTER_INSTANTIATE
// NOLINTEND(bugprone-macro-parentheses)

}  // namespace muster::ops
