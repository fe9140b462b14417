// Attention of one key/value head in one segment (row_kernels.h has the contracts). Query rows and
// keys are cut into blocks of kAttentionBlock by position in the segment; blocks above the diagonal
// are never touched, and inside the diagonal block each strip of rows stops at its last visible
// key.
//
// Order of additions, per query row: a score is one fma chain over c; inside a key block, weights
// exp((s - block maximum) scale) are summed in 16 lanes and their values in key order; blocks are
// merged in ascending order, each pair scaled to the larger maximum. A masked key contributes a
// weight of exactly 0, and the result has +0 added at the end, so rows are equal however they are
// grouped: attention_decode gives the bits of the full pass.
#pragma once

#include "train/ops/row_kernels.h"
#include "train/ops/tile.h"
#include "train/ops/transpose.h"
#include "train/ops/vector_math.h"

namespace muster::ops::MUSTER_OPS_ISA {

template <class V>
struct AttentionRows {
  using T = typename V::Scalar;
  static constexpr int64_t B = kAttentionBlock;
  static constexpr int64_t kStrip = 12;  // rows that share one limit of visible keys

  static int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }
  static int64_t blocks_of(int64_t length) { return (length + B - 1) / B; }

  // rows [n, c] -> columns [c, B], 0 behind n.
  static void transpose_block(int64_t n, int64_t c, const T* rows, T* columns) {
    pack_lines<V>(B, n, c, rows, c, columns);
  }

  // The state of up to B query rows while key blocks are merged into it.
  struct State {
    T* scores;  // [B, B]
    T* fresh;   // [B, wide] values of the newest block
    T* merged;  // [B, wide] values so far
    T* top;     // [B] largest score so far
    T* sum;     // [B] sum of weights so far, relative to top
    T* fresh_top;
    T* fresh_sum;
    int64_t wide;
  };
  static State state_in(T* scratch, int64_t c) {
    State s;
    s.wide = (c + kLanes - 1) / kLanes * kLanes;
    s.scores = scratch;
    s.fresh = s.scores + B * B;
    s.merged = s.fresh + B * s.wide;
    s.top = s.merged + B * s.wide;
    s.sum = s.top + B;
    s.fresh_top = s.sum + B;
    s.fresh_sum = s.fresh_top + B;
    return s;
  }

  // Row r of `rows` sees the first least(n, first + r * each) keys of this block (at least one).
  struct Visible {
    int64_t n, first, each;
    int64_t of(int64_t row) const { return least(n, first + row * each); }
  };

  static void attend(const State& s, int64_t rows, int64_t c, T scale, const T* q,
                     const T* k_columns, const T* v, Visible visible, bool first_block) {
    const SmallProduct<T> score{c, q, c, 1, k_columns, B, s.scores, B, false};
    for (int64_t r = 0; r < rows; r += kStrip) {
      const int64_t count = least(kStrip, rows - r);
      product_strip<V>(score, r, count, visible.of(r + count - 1));
    }
    T* top = first_block ? s.top : s.fresh_top;
    T* sum = first_block ? s.sum : s.fresh_sum;
    T* values = first_block ? s.merged : s.fresh;
    for (int64_t r = 0; r < rows; ++r)
      weigh(s.scores + r * B, visible.of(r), scale, top + r, sum + r);
    for (int64_t r = 0; r < rows; r += kStrip) {
      const int64_t count = least(kStrip, rows - r);
      const SmallProduct<T> value{
          visible.of(r + count - 1), s.scores, B, 1, v, c, values, s.wide, false};
      product_strip<V>(value, r, count, c);
    }
    if (!first_block) merge(s, rows, scale);
  }

  // scores -> weights in place; lanes from n to the end of the block are 0.
  static void weigh(T* scores, int64_t n, T scale, T* top, T* sum) {
    const V lowest = V::set(static_cast<T>(-__builtin_inf()));
    V largest = lowest;
    for (int64_t i = 0; i < n; i += kLanes) {
      largest = max(V::load(scores + i).first_else(least(kLanes, n - i), lowest), largest);
    }
    *top = largest.largest();
    const V shift = V::set(*top), factor = V::set(scale);
    V sums = V::zero();
    for (int64_t i = 0; i < B; i += kLanes) {
      if (i >= n) {
        V::zero().store(scores + i);
        continue;
      }
      const V e =
          exp((V::load(scores + i) - shift) * factor).first_else(least(kLanes, n - i), V::zero());
      e.store(scores + i);
      sums = sums + e;
    }
    *sum = sums.sum();
  }

  static void merge(const State& s, int64_t rows, T scale) {
    const V factor = V::set(scale);
    for (int64_t r = 0; r < rows; r += kLanes) {
      const V old_top = V::load(s.top + r), new_top = V::load(s.fresh_top + r);
      const V top = max(old_top, new_top);
      const V keep = exp((old_top - top) * factor), take = exp((new_top - top) * factor);
      top.store(s.top + r);
      fma(V::load(s.fresh_sum + r), take, V::load(s.sum + r) * keep).store(s.sum + r);
      keep.store(s.fresh_top + r);  // kept for the rows below
      take.store(s.fresh_sum + r);
    }
    for (int64_t r = 0; r < rows; ++r) {
      const V keep = V::set(s.fresh_top[r]), take = V::set(s.fresh_sum[r]);
      T* merged = s.merged + r * s.wide;
      const T* fresh = s.fresh + r * s.wide;
      for (int64_t i = 0; i < s.wide; i += kLanes) {
        fma(V::load(fresh + i), take, V::load(merged + i) * keep).store(merged + i);
      }
    }
  }

  static void finish(const State& s, int64_t rows, int64_t c, T scale, T* o, int64_t o_row,
                     T* lse) {
    for (int64_t r = 0; r < rows; ++r) {
      const V inverse = V::set(T{1} / s.sum[r]);
      each_vector(c, [&](int64_t i, int64_t n) {
        store(fma(V::load(s.merged + r * s.wide + i), inverse, V::zero()), o + r * o_row + i, n);
      });
    }
    if (lse == nullptr) return;
    each_vector(rows, [&](int64_t r, int64_t n) {
      const V sum = V::load(s.sum + r).first_else(n, V::set(1));
      store(fma(V::load(s.top + r), V::set(scale), log(sum)), lse + r, n);
    });
  }

  static void clear(T* p, int64_t n) { __builtin_memset(p, 0, static_cast<size_t>(n) * sizeof(T)); }

  static void forward(const AttentionItem<T>& a) {
    const int64_t blocks = blocks_of(a.length);
    T* k_columns = a.scratch;
    const State s = state_in(k_columns + blocks * B * a.c, a.c);
    clear(s.fresh, 2 * B * s.wide + 4 * B);  // padding lanes are computed with and never kept
    for (int64_t j = 0; j < blocks; ++j) {
      transpose_block(least(B, a.length - j * B), a.c, a.k + j * B * a.c, k_columns + j * B * a.c);
    }
    for (int64_t h = 0; h < a.queries_per_kv; ++h) {
      for (int64_t i = 0; i < blocks; ++i) {
        const int64_t rows = least(B, a.length - i * B);
        for (int64_t j = 0; j <= i; ++j) {
          const Visible visible = j < i ? Visible{B, B, 0} : Visible{rows, 1, 1};
          attend(s, rows, a.c, a.scale, a.q + h * a.q_head + i * B * a.c, k_columns + j * B * a.c,
                 a.v + j * B * a.c, visible, j == 0);
        }
        finish(s, rows, a.c, a.scale, a.o + i * B * a.o_row + h * a.c, a.o_row,
               a.lse + h * a.lse_head + i * B);
      }
    }
  }

  static void decode(const AttentionItem<T>& a) {
    T* k_columns = a.scratch;
    const State s = state_in(k_columns + B * a.c, a.c);
    clear(s.fresh, 2 * B * s.wide + 4 * B);
    for (int64_t h0 = 0; h0 < a.queries_per_kv; h0 += B) {  // more than B query heads never fit
      const int64_t rows = least(B, a.queries_per_kv - h0);
      for (int64_t j = 0; j * B < a.length; ++j) {
        const int64_t n = least(B, a.length - j * B);
        transpose_block(n, a.c, a.k + j * B * a.c, k_columns);
        attend(s, rows, a.c, a.scale, a.q + h0 * a.c, k_columns, a.v + j * B * a.c,
               Visible{n, n, 0}, j == 0);
      }
      finish(s, rows, a.c, a.scale, a.o + h0 * a.c, a.c, nullptr);
    }
  }

  // Per block pair (i, j): P = exp(scale q k - lse), dP = dout v, dS = P (dP - D) scale with
  // D = sum(dout o); dv += P^T dout, dk += dS^T q, dq += dS k. Order: key block, query head, query
  // block, then tokens ascending.
  static void backward(const AttentionItem<T>& a) {
    const int64_t blocks = blocks_of(a.length), c = a.c;
    T* weights = a.scratch;            // P [B, B]
    T* slopes = weights + B * B;       // dS [B, B]
    T* k_columns = slopes + B * B;     // [c, B]
    T* v_columns = k_columns + B * c;  // [c, B]
    T* dots = v_columns + B * c;       // D [heads, length]
    for (int64_t h = 0; h < a.queries_per_kv; ++h) {
      for (int64_t t = 0; t < a.length; ++t) {
        const int64_t at = t * a.o_row + h * c;
        dots[h * a.length + t] = dot(c, a.dout + at, a.o_in + at);
      }
    }
    for (int64_t j = 0; j < blocks; ++j) {
      const int64_t keys = least(B, a.length - j * B);
      const T* k = a.k + j * B * c;
      transpose_block(keys, c, k, k_columns);
      transpose_block(keys, c, a.v + j * B * c, v_columns);
      bool first = true;
      for (int64_t h = 0; h < a.queries_per_kv; ++h) {
        for (int64_t i = j; i < blocks; ++i, first = false) {
          const int64_t rows = least(B, a.length - i * B);
          const Visible visible = j < i ? Visible{keys, keys, 0} : Visible{keys, 1, 1};
          const T* q = a.q + h * a.q_head + i * B * c;
          const T* dout = a.dout + i * B * a.o_row + h * c;
          const SmallProduct<T> score{c, q, c, 1, k_columns, B, weights, B, false};
          const SmallProduct<T> dweight{c, dout, a.o_row, 1, v_columns, B, slopes, B, false};
          const SmallProduct<T> dq{0, slopes, B, 1, k, c, a.dq + h * a.q_head + i * B * c,
                                   c, j > 0};
          for (int64_t r = 0; r < rows; r += kStrip) {
            const int64_t count = least(kStrip, rows - r);
            const int64_t seen = visible.of(r + count - 1);
            product_strip<V>(score, r, count, seen);
            product_strip<V>(dweight, r, count, seen);
          }
          for (int64_t r = 0; r < rows; ++r) {
            const int64_t row = i * B + r;
            slope(weights + r * B, slopes + r * B, visible.of(r), a.scale,
                  a.lse_in[h * a.lse_head + row], dots[h * a.length + row]);
          }
          for (int64_t r = 0; r < rows; r += kStrip) {
            const int64_t count = least(kStrip, rows - r);
            SmallProduct<T> p = dq;
            p.K = visible.of(r + count - 1);
            product_strip<V>(p, r, count, c);
          }
          for (int64_t n = 0; n < keys; n += kStrip) {
            // In the diagonal block key n is first seen by row n.
            const int64_t from = j < i ? 0 : n, count = least(kStrip, keys - n);
            product_strip<V>({rows - from, weights + from * B, 1, B, dout + from * a.o_row, a.o_row,
                              a.dv + j * B * c, c, !first},
                             n, count, c);
            product_strip<V>({rows - from, slopes + from * B, 1, B, q + from * c, c,
                              a.dk + j * B * c, c, !first},
                             n, count, c);
          }
        }
      }
    }
  }

  static T dot(int64_t c, const T* x, const T* y) {
    V sum = V::zero();
    each_vector(
        c, [&](int64_t i, int64_t n) { sum = fma(load<V>(x + i, n), load<V>(y + i, n), sum); });
    return sum.sum();
  }

  // weights: scores -> P; slopes: dP -> dS; both 0 from n to the end of the block.
  static void slope(T* weights, T* slopes, int64_t n, T scale, T lse, T d) {
    const V factor = V::set(scale), shift = V::set(-lse), mean = V::set(d);
    for (int64_t i = 0; i < B; i += kLanes) {
      if (i >= n) {
        V::zero().store(weights + i);
        V::zero().store(slopes + i);
        continue;
      }
      const int64_t count = least(kLanes, n - i);
      const V p = exp(fma(V::load(weights + i), factor, shift));
      const V ds = p * (V::load(slopes + i) - mean) * factor;
      p.first_else(count, V::zero()).store(weights + i);
      ds.first_else(count, V::zero()).store(slopes + i);
    }
  }
};

}  // namespace muster::ops::MUSTER_OPS_ISA
