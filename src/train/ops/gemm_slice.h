// The single-threaded product of gemm.h over a 16-lane vector type, compiled per instruction set.
//
// B is packed in panels of kColumns columns, A in panels of kRows rows, both k-major, so the inner
// loop reads two streams. A tile of C lives in registers for a whole K-block; finished blocks wait
// on a small stack for their partner in the tree. When K needs several chunks, the sums between
// chunks wait in slots, one buffer per tile in packed order. C is written once, on completion.
#pragma once

#include "train/ops/gemm.h"
#include "train/ops/tile.h"
#include "train/ops/transpose.h"

namespace muster::ops::MUSTER_OPS_ISA {

template <class V>
struct GemmTile {
  using T = typename V::Scalar;
  static constexpr int64_t kRows = kTileRows, kColumns = kTileVectors * kLanes;
  static constexpr int64_t kSize = kRows * kColumns;

  // What the tiles of one call share, and where this one is.
  struct Work {
    const KChunk* chunk;
    const T* a;  // packed, kRows apart
    const T* b;  // packed, kColumns apart
    T* slots;    // slot s at s * kSize
    T* C;
    int64_t ldc;
    int64_t rows, columns;  // valid ones
    bool add_c;
    const T* bias;  // at this tile's first column, or null
  };

  template <int R, int NV>
  [[gnu::noinline]] static void run(const Work& w) {
    const KChunk& chunk = *w.chunk;
    alignas(64) T waiting[3][R * NV * kLanes];
    int depth = 0;
    V acc[R][NV];
    const T* a = w.a;
    const T* b = w.b;
    T* slot = w.slots + chunk.slot * kSize;
    int64_t k = 0;
    for (int block = 0;; ++block) {
      if (chunk.resumes) {
        each<R, NV>([&](int r, int v) { acc[r][v] = V::load(slot + at<NV>(r, v)); });
      } else {
        each<R, NV>([&](int r, int v) { acc[r][v] = V::zero(); });
      }
      for (const int64_t end = chunk.ends[block]; k < end; ++k, a += kRows, b += kColumns) {
        V bv[NV];
#pragma GCC unroll 4
        for (int v = 0; v < NV; ++v) bv[v] = V::load(b + v * kLanes);
#pragma GCC unroll 16
        for (int r = 0; r < R; ++r) {
          const V av = V::set(a[r]);
#pragma GCC unroll 4
          for (int v = 0; v < NV; ++v) acc[r][v] = fma(av, bv[v], acc[r][v]);
        }
      }
      for (int n = block + 1; n % 2 == 0; n /= 2) {
        const T* partner = waiting[--depth];
        each<R, NV>([&](int r, int v) { acc[r][v] = V::load(partner + at<NV>(r, v)) + acc[r][v]; });
      }
      if (block + 1 == chunk.blocks) break;
      T* to = waiting[depth++];
      each<R, NV>([&](int r, int v) { acc[r][v].store(to + at<NV>(r, v)); });
    }
    for (int f = 1; f <= chunk.folds; ++f) {
      const T* partner = slot - f * kSize;
      each<R, NV>([&](int r, int v) { acc[r][v] = V::load(partner + at<NV>(r, v)) + acc[r][v]; });
    }
    if (!chunk.last) {
      T* to = slot - chunk.folds * kSize;
      each<R, NV>([&](int r, int v) { acc[r][v].store(to + at<NV>(r, v)); });
      return;
    }
    if (w.rows == R && w.columns == NV * kLanes) {
      each<R, NV>([&](int r, int v) { finish(w, acc[r][v], r, v, kLanes); });
      return;
    }
    each<R, NV>([&](int r, int v) {
      const int64_t n = w.columns - v * kLanes;
      if (r < w.rows && n > 0) finish(w, acc[r][v], r, v, n < kLanes ? n : kLanes);
    });
  }

  // The smallest compiled tile that holds the work.
  static void run(const Work& w) {
    if (kTileVectors > 1 && w.columns <= kLanes) {
      run_rows<1>(w);
    } else {
      run_rows<kTileVectors>(w);
    }
  }

 private:
  template <int NV>
  static constexpr int64_t at(int r, int v) {
    return (r * NV + v) * kLanes;
  }
  template <int R, int NV, class Body>
  [[gnu::always_inline]] static inline void each(Body body) {
#pragma GCC unroll 16
    for (int r = 0; r < R; ++r) {
#pragma GCC unroll 4
      for (int v = 0; v < NV; ++v) body(r, v);
    }
  }
  [[gnu::always_inline]] static inline void finish(const Work& w, V value, int r, int v,
                                                   int64_t n) {
    T* to = w.C + r * w.ldc + v * kLanes;
    if (w.add_c) value = value + load<V>(to, n);
    if (w.bias != nullptr) value = value + load<V>(w.bias + v * kLanes, n);
    store(value, to, n);
  }
  template <int NV>
  static void run_rows(const Work& w) {
    if constexpr (kRows == 12) {
      if (w.rows > 10) return run<12, NV>(w);
      if (w.rows > 8) return run<10, NV>(w);
      if (w.rows > 6) return run<8, NV>(w);
    }
    if (w.rows > 4) return run<6, NV>(w);
    if (w.rows > 3) return run<4, NV>(w);
    if (w.rows > 2) return run<3, NV>(w);
    if (w.rows > 1) return run<2, NV>(w);
    run<1, NV>(w);
  }
};

// Packs `count` lines of a matrix, [k0, k0 + length) of each, into panels of `width` lines,
// k-major; lines behind the end are 0. contiguous_k: a line is contiguous in memory (A, or B
// transposed); else the lines lie side by side.
template <class V>
void pack_panels(bool contiguous_k, int64_t width, int64_t count, int64_t length,
                 const typename V::Scalar* from, int64_t ld, typename V::Scalar* to) {
  using T = typename V::Scalar;
  if (contiguous_k) {
    for (int64_t p = 0; p < count; p += width, from += width * ld, to += width * length) {
      pack_lines<V>(width, count - p < width ? count - p : width, length, from, ld, to);
    }
    return;
  }
  // Strips of 8 k: the rows of a matrix are often a power of two apart and would all fall into one
  // set of the cache if one panel were packed for all k.
  const int64_t whole = (width + kLanes - 1) / kLanes * kLanes;
  for (int64_t k0 = 0; k0 < length; k0 += 8) {
    const int64_t k1 = k0 + 8 < length ? k0 + 8 : length;
    for (int64_t p = 0; p < count; p += width) {
      const int64_t n = count - p < width ? count - p : width;
      T* panel = to + p * length;
      for (int64_t k = k0; k < k1; ++k) {
        // The last rows must not run over into the next panel, whose first rows are there already.
        const bool loose = count - p >= whole && (length - k) * width >= whole;
        copy_row<V>(width, n, loose, from + k * ld + p, panel + k * width);
      }
    }
  }
}

template <class V>
struct GemmLoops {
  using T = typename V::Scalar;
  using Tile = GemmTile<V>;
  static constexpr int64_t kRows = Tile::kRows, kColumns = Tile::kColumns;
  static constexpr int64_t kBytes = sizeof(T);

  // Cache blocking. Elements of K packed at a time, and of the buffers in scratch.
  static constexpr int64_t kChunk = 4096 / kBytes;                  // 1,024 floats
  static constexpr int64_t kPackedA = (int64_t{1} << 20) / kBytes;  // the second cache
  static constexpr int64_t kPackedB = (int64_t{4} << 20) / kBytes;
  static constexpr int64_t kSlots = (int64_t{4} << 20) / kBytes;
  static_assert((kPackedA + kPackedB + kSlots + kOverrun) * kBytes <= kGemmScratchBytes);

  static int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }
  static int64_t round_up(int64_t n, int64_t m) { return (n + m - 1) / m * m; }
  static int64_t round_down(int64_t n, int64_t m) { return n / m * m > m ? n / m * m : m; }

  // How the loops below cut M and N; multiples of a tile.
  struct Blocking {
    int64_t ms;    // rows between two passes over K: bounds the slots
    int64_t ns;    // columns, likewise
    int64_t nc;    // columns of B packed together
    int64_t mc;    // rows of A packed together
    bool a_stays;  // A is packed once per chunk of K, not once per block of columns
  };

  static Blocking blocking(int64_t M, int64_t N, int64_t deep, int64_t slots) {
    const int64_t rows = round_up(M, kRows), columns = round_up(N, kColumns);
    // Few rows, as in a small batch or a decode step: A stays in the second cache, and each panel
    // of B goes from memory through the first cache to its use without being written back.
    if (rows * deep <= kPackedA && rows * columns * slots <= kSlots) {
      return {rows, columns, least(columns, 2 * kColumns), rows, true};
    }
    // Many rows: a wide block of B is packed once, and blocks of A that fill half the cache pass.
    const int64_t wide = slots > 0 ? 512 : 2048;
    const int64_t nc = least(columns, round_down(least(wide, kPackedB / deep), kColumns));
    const int64_t ms = slots == 0 ? rows : least(rows, round_down(kSlots / (slots * nc), kRows));
    return {ms, nc, nc, least(ms, round_down(kPackedA / 2 / deep, kRows)), false};
  }

  static void run(const GemmSlice<T>& s) {
    const int64_t M = s.m1 - s.m0, N = s.n1 - s.n0;
    if (M <= 0 || N <= 0) return;
    const KPlan plan = KPlan::make(s.K, kChunk);
    const int64_t slots = plan.slots();
    const Blocking cut = blocking(M, N, plan.longest > 0 ? plan.longest : 1, slots);
    T* packed_b = reinterpret_cast<T*>(s.scratch);
    T* packed_a = packed_b + kPackedB;
    T* tile_slots = packed_a + kPackedA + kOverrun;
    for (int64_t m0 = 0; m0 < M; m0 += cut.ms) {
      const int64_t m_end = least(M, m0 + cut.ms);
      for (int64_t n0 = 0; n0 < N; n0 += cut.ns) {
        const int64_t n_end = least(N, n0 + cut.ns);
        for (int64_t i = 0; i < plan.chunks(); ++i) {
          const KChunk chunk = plan.chunk(i);
          if (cut.a_stays) pack_a(s, m0, m_end - m0, chunk, packed_a);
          for (int64_t n = n0; n < n_end; n += cut.nc) {
            const int64_t columns = least(cut.nc, n_end - n);
            pack_b(s, n, columns, chunk, packed_b);
            for (int64_t m = m0; m < m_end; m += cut.mc) {
              const int64_t rows = least(cut.mc, m_end - m);
              if (!cut.a_stays) pack_a(s, m, rows, chunk, packed_a);
              T* block_slots =
                  tile_slots + ((m - m0) / kRows * (cut.ns / kColumns) + (n - n0) / kColumns) *
                                   slots * Tile::kSize;
              multiply(s, chunk, m, rows, n, columns, packed_a, packed_b, block_slots,
                       cut.ns / kColumns * slots * Tile::kSize, slots * Tile::kSize);
            }
          }
        }
      }
    }
  }

  // All tiles of a packed block: rows [m, m + rows), columns [n, n + columns) of the slice.
  static void multiply(const GemmSlice<T>& s, const KChunk& chunk, int64_t m, int64_t rows,
                       int64_t n, int64_t columns, const T* packed_a, const T* packed_b, T* slots,
                       int64_t slots_row, int64_t slots_column) {
    const int64_t length = chunk.end - chunk.begin;
    for (int64_t j = 0; j < columns; j += kColumns) {
      for (int64_t r = 0; r < rows; r += kRows) {
        Tile::run({&chunk, packed_a + r * length, packed_b + j * length,
                   slots + r / kRows * slots_row + j / kColumns * slots_column,
                   s.C + (s.m0 + m + r) * s.ldc + s.n0 + n + j, s.ldc, least(kRows, rows - r),
                   least(kColumns, columns - j), s.add_c,
                   s.bias == nullptr ? nullptr : s.bias + s.n0 + n + j});
      }
    }
  }

  static void pack_a(const GemmSlice<T>& s, int64_t m, int64_t rows, const KChunk& chunk, T* to) {
    const int64_t row = s.m0 + m;
    const T* from = s.ta ? s.A + chunk.begin * s.lda + row : s.A + row * s.lda + chunk.begin;
    pack_panels<V>(!s.ta, kRows, rows, chunk.end - chunk.begin, from, s.lda, to);
  }
  static void pack_b(const GemmSlice<T>& s, int64_t n, int64_t columns, const KChunk& chunk,
                     T* to) {
    const int64_t column = s.n0 + n;
    const T* from = s.tb ? s.B + column * s.ldb + chunk.begin : s.B + chunk.begin * s.ldb + column;
    pack_panels<V>(s.tb, kColumns, columns, chunk.end - chunk.begin, from, s.ldb, to);
  }
};

}  // namespace muster::ops::MUSTER_OPS_ISA
