#include "train/ops/gemm.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "train/ops/ops_fixture.h"

namespace muster::ops {
namespace {

struct Case {
  bool ta, tb;
  int64_t M, N, K;
  int beta;
  bool bias;
  int64_t pad = 0;  // leading dimensions exceed the row by this
};

std::string name(const Case& c) {
  std::string s;
  s += c.ta ? 'T' : 'N';
  s += c.tb ? 'T' : 'N';
  return s + " M" + std::to_string(c.M) + " N" + std::to_string(c.N) + " K" + std::to_string(c.K) +
         " beta" + std::to_string(c.beta) + (c.bias ? " bias" : "");
}

template <class T>
struct Operands {
  explicit Operands(const Case& s)
      : lda((s.ta ? s.M : s.K) + s.pad),
        ldb((s.tb ? s.K : s.N) + s.pad),
        ldc(s.N + s.pad),
        a(numbers<T>(lda * (s.ta ? s.K : s.M), 1)),
        b(numbers<T>(ldb * (s.tb ? s.N : s.K), 2)),
        c(numbers<T>(ldc * s.M, 3)),
        bias(numbers<T>(s.N, 4)) {}
  int64_t lda, ldb, ldc;
  std::vector<T> a, b, c, bias;
};

// The order of gemm.h, one element at a time.
template <class T>
std::vector<T> by_definition(const Case& c) {
  Operands<T> o(c);
  std::vector<T> out = o.c;
  for (int64_t m = 0; m < c.M; ++m) {
    for (int64_t n = 0; n < c.N; ++n) {
      T block[kKBlocks];
      for (int i = 0; i < kKBlocks; ++i) {
        T sum = 0;
        for (int64_t k = i * c.K / kKBlocks; k < (i + 1) * c.K / kKBlocks; ++k) {
          const T a = o.a[static_cast<size_t>(c.ta ? k * o.lda + m : m * o.lda + k)];
          const T b = o.b[static_cast<size_t>(c.tb ? n * o.ldb + k : k * o.ldb + n)];
          sum = std::fma(a, b, sum);
        }
        block[i] = sum;
      }
      T value = ((block[0] + block[1]) + (block[2] + block[3])) +
                ((block[4] + block[5]) + (block[6] + block[7]));
      T& to = out[static_cast<size_t>(m * o.ldc + n)];
      if (c.beta == 1) value = value + to;
      if (c.bias) value = value + o.bias[static_cast<size_t>(n)];
      to = value;
    }
  }
  return out;
}

template <class T>
std::vector<T> by_kernel(Exec& exec, const Case& c) {
  Operands<T> o(c);
  if (c.beta == 0) {
    // With beta 0 C is never read: what lies there, even NaN, must not matter.
    for (int64_t m = 0; m < c.M; ++m) {
      for (int64_t n = 0; n < c.N; ++n) o.c[static_cast<size_t>(m * o.ldc + n)] = NAN;
    }
  }
  gemm<T>(exec, c.ta ? Trans::yes : Trans::no, c.tb ? Trans::yes : Trans::no, c.M, c.N, c.K,
          o.a.data(), o.lda, o.b.data(), o.ldb, static_cast<T>(c.beta), o.c.data(), o.ldc,
          c.bias ? o.bias.data() : nullptr);
  return o.c;
}

std::vector<Case> cases() {
  std::vector<Case> all;
  for (bool ta : {false, true}) {
    for (bool tb : {false, true}) {
      // Tile edges on both sides, few rows, one column, K shorter than the number of blocks.
      for (int64_t M : {1, 2, 3, 7, 13, 28}) {
        for (int64_t N : {1, 17, 32, 49}) {
          for (int64_t K : {0, 1, 7, 9, 40}) {
            all.push_back({ta, tb, M, N, K, static_cast<int>(M % 2), N % 2 == 0, K % 3});
          }
        }
      }
      all.push_back({ta, tb, 100, 130, 70, 0, true});
      all.push_back({ta, tb, 37, 65, 1100, 1, true, 5});   // several chunks of K
      all.push_back({ta, tb, 14, 40, 2500, 0, false});     // four chunks
      all.push_back({ta, tb, 13, 33, 9001, 1, false, 1});  // blocks longer than a chunk
      all.push_back({ta, tb, 2, 33, 17000, 0, true});      // three chunks a block
    }
  }
  return all;
}

template <class T>
void expect_defined_order() {
  std::vector<std::unique_ptr<Bench>> benches;
  for (Isa isa : isas()) {
    for (int threads : {1, 3}) benches.push_back(std::make_unique<Bench>(threads, isa));
  }
  for (const Case& c : cases()) {
    const std::vector<T> want = by_definition<T>(c);
    for (const auto& bench : benches) {
      ASSERT_TRUE(same_bits(by_kernel<T>(bench->exec, c), want))
          << name(c) << " on " << isa_name(bench->exec.isa) << " with " << bench->exec.team.size()
          << " threads";
    }
  }
}

TEST(Gemm, FloatHasTheDefinedOrderOnEveryInstructionSetAndThreadCount) {
  expect_defined_order<float>();
}

TEST(Gemm, DoubleHasTheDefinedOrder) {
  expect_defined_order<double>();
}

TEST(Gemm, BitsDoNotDependOnSlicesOfRowsAndColumns) {
  const int64_t M = 150, N = 210, K = 333;
  const auto a = numbers<float>(M * K, 1), b = numbers<float>(N * K, 2);
  for (Isa isa : isas()) {
    Bench bench(2, isa);
    std::vector<float> whole(static_cast<size_t>(M * N));
    gemm<float>(bench.exec, Trans::no, Trans::yes, M, N, K, a.data(), K, b.data(), K, 0.0f,
                whole.data(), N);
    for (int64_t step : {1, 2, 3, 50, 97}) {
      std::vector<float> sliced(static_cast<size_t>(M * N));
      for (int64_t m = 0; m < M; m += step) {
        for (int64_t n = 0; n < N; n += 5 * step) {
          gemm<float>(bench.exec, Trans::no, Trans::yes, std::min(step, M - m),
                      std::min(5 * step, N - n), K, a.data() + m * K, K, b.data() + n * K, K, 0.0f,
                      sliced.data() + m * N + n, N);
        }
      }
      ASSERT_TRUE(same_bits(whole, sliced)) << "slices of " << step << " on " << isa_name(isa);
    }
  }
}

TEST(Gemm, NothingToDo) {
  Bench bench(2, best_isa());
  float c = 5;
  gemm<float>(bench.exec, Trans::no, Trans::no, 0, 4, 4, nullptr, 4, nullptr, 4, 0.0f, &c, 4);
  gemm<float>(bench.exec, Trans::no, Trans::no, 4, 0, 4, nullptr, 4, nullptr, 1, 0.0f, &c, 1);
  EXPECT_EQ(c, 5);
  EXPECT_EQ(bench.arena.used(), 0u);
}

TEST(Gemm, ScratchStaysWithinItsBoundAndIsGivenBack) {
  Bench bench(1, best_isa());
  for (const Case& c :
       {Case{false, true, 700, 600, 1000, 0, false}, Case{false, false, 1200, 300, 9000, 0, false},
        Case{true, false, 40, 2100, 300, 0, false}}) {
    by_kernel<float>(bench.exec, c);
    EXPECT_EQ(bench.arena.used(), 0u);
    EXPECT_LE(bench.arena.peak(), kGemmScratchBytes);
  }
}

TEST(KPlan, ChunksCoverKInOrderAndFoldInABalancedTree) {
  for (int64_t K : {0, 1, 7, 8, 100, 255, 256, 1000, 4096, 50257}) {
    for (int64_t limit : {1, 3, 32, 100, 1024}) {
      const KPlan plan = KPlan::make(K, limit);
      if (plan.chunks() > 4000) continue;
      SCOPED_TRACE("K " + std::to_string(K) + " limit " + std::to_string(limit));
      int64_t at = 0;
      int held = 0;
      for (int64_t i = 0; i < plan.chunks(); ++i) {
        const KChunk c = plan.chunk(i);
        EXPECT_EQ(c.begin, at);
        EXPECT_EQ(c.ends[c.blocks - 1], c.end - c.begin);
        EXPECT_LE(c.end - c.begin, plan.longest);
        EXPECT_EQ(c.slot, held);
        at = c.end;
        if (!c.stays_open) held += 1 - c.folds;
        EXPECT_EQ(c.last, i + 1 == plan.chunks());
      }
      EXPECT_EQ(at, K);
      EXPECT_EQ(held, 1);
      EXPECT_LE(plan.slots(), 4);
    }
  }
}

}  // namespace
}  // namespace muster::ops
