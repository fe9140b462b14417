#include <gtest/gtest.h>

#include <cmath>

#include "train/ops/ops_fixture.h"

namespace muster::ops {
namespace {

struct Inputs {
  Inputs(int64_t tokens_, int64_t H_, int64_t G_, int64_t c_)
      : tokens(tokens_),
        H(H_),
        G(G_),
        c(c_),
        q(numbers<float>(H * tokens * c, 1)),
        k(numbers<float>(G * tokens * c, 2)),
        v(numbers<float>(G * tokens * c, 3)) {
    for (float& x : q) x *= 3;
  }
  int64_t tokens, H, G, c;
  std::vector<float> q, k, v;
};

std::vector<float> forward(Exec& exec, const Inputs& in, const std::vector<int32_t>& segments) {
  std::vector<float> o(static_cast<size_t>(in.tokens * in.H * in.c)),
      lse(static_cast<size_t>(in.H * in.tokens));
  attention_forward<float>(exec, segments, in.tokens, in.H, in.G, in.c, 0.3f, in.q.data(),
                           in.k.data(), in.v.data(), o.data(), lse.data());
  return o;
}

TEST(Attention, AgreesWithTheFormula) {
  const Inputs in(150, 4, 2, 24);
  Bench bench(1, best_isa());
  const std::vector<float> o = forward(bench.exec, in, {0, 30, 150});
  for (int64_t h = 0; h < in.H; ++h) {
    for (int64_t t = 0; t < in.tokens; ++t) {
      const int64_t first = t < 30 ? 0 : 30, g = h / 2;
      std::vector<double> weight, value(static_cast<size_t>(in.c), 0.0);
      double sum = 0;
      for (int64_t s = first; s <= t; ++s) {
        double score = 0;
        for (int64_t i = 0; i < in.c; ++i) {
          score += static_cast<double>(in.q[static_cast<size_t>((h * in.tokens + t) * in.c + i)]) *
                   static_cast<double>(in.k[static_cast<size_t>((g * in.tokens + s) * in.c + i)]);
        }
        weight.push_back(std::exp(score * static_cast<double>(0.3f)));
        sum += weight.back();
      }
      for (int64_t i = 0; i < in.c; ++i) {
        double want = 0;
        for (int64_t s = first; s <= t; ++s) {
          want += weight[static_cast<size_t>(s - first)] / sum *
                  static_cast<double>(in.v[static_cast<size_t>((g * in.tokens + s) * in.c + i)]);
        }
        ASSERT_NEAR(o[static_cast<size_t>((t * in.H + h) * in.c + i)], want, 2e-6)
            << "head " << h << " token " << t;
      }
    }
  }
}

TEST(Attention, PackedSegmentsHaveTheBitsOfSeparateOnes) {
  const Inputs in(200, 4, 2, 32);
  Bench bench(2, best_isa());
  const std::vector<int32_t> segments = {0, 0, 1, 65, 66, 194, 200};
  const std::vector<float> packed = forward(bench.exec, in, segments);
  for (size_t s = 0; s + 1 < segments.size(); ++s) {
    const int64_t first = segments[s], n = segments[s + 1] - first;
    if (n == 0) continue;
    Inputs alone(n, in.H, in.G, in.c);
    const auto cut = [&](const std::vector<float>& from, int64_t heads, std::vector<float>& to) {
      for (int64_t h = 0; h < heads; ++h) {
        std::copy_n(from.data() + (h * in.tokens + first) * in.c, n * in.c,
                    to.data() + h * n * in.c);
      }
    };
    cut(in.q, in.H, alone.q);
    cut(in.k, in.G, alone.k);
    cut(in.v, in.G, alone.v);
    const std::vector<float> o = forward(bench.exec, alone, {0, static_cast<int32_t>(n)});
    ASSERT_EQ(std::memcmp(o.data(), packed.data() + first * in.H * in.c, o.size() * sizeof(float)),
              0)
        << "segment " << s;
  }
}

TEST(Attention, ADecodeStepHasTheBitsOfTheFullPass) {
  for (Isa isa : isas()) {
    const Inputs in(140, 6, 2, 20);
    Bench bench(2, isa);
    const std::vector<float> full = forward(bench.exec, in, {0, 140});
    const int64_t capacity = in.tokens;
    for (int64_t t : {0, 1, 15, 16, 62, 63, 64, 100, 127, 128, 139}) {
      std::vector<float> q(static_cast<size_t>(in.H * in.c)), o(q.size());
      for (int64_t h = 0; h < in.H; ++h) {
        std::copy_n(in.q.data() + (h * in.tokens + t) * in.c, in.c, q.data() + h * in.c);
      }
      // Rows behind `length` belong to nobody yet.
      std::vector<float> k = in.k, v = in.v;
      for (int64_t g = 0; g < in.G; ++g) {
        std::fill(k.begin() + (g * capacity + t + 1) * in.c, k.begin() + (g + 1) * capacity * in.c,
                  NAN);
        std::fill(v.begin() + (g * capacity + t + 1) * in.c, v.begin() + (g + 1) * capacity * in.c,
                  NAN);
      }
      attention_decode<float>(bench.exec, t + 1, capacity, in.H, in.G, in.c, 0.3f, q.data(),
                              k.data(), v.data(), o.data());
      ASSERT_EQ(std::memcmp(o.data(), full.data() + t * in.H * in.c, o.size() * sizeof(float)), 0)
          << "token " << t << " on " << isa_name(isa);
    }
  }
}

TEST(Attention, LargeScoresDoNotOverflow) {
  Inputs in(100, 1, 1, 16);
  for (float& x : in.q) x *= 1e4f;
  Bench bench(1, best_isa());
  for (float x : forward(bench.exec, in, {0, 100})) ASSERT_TRUE(std::isfinite(x));
}

TEST(Attention, ScratchStaysWithinTheBound) {
  const Inputs in(300, 6, 2, 40);
  Bench bench(3, best_isa());
  forward(bench.exec, in, {0, 20, 300});
  EXPECT_LE(bench.arena.peak(), scratch_bytes<float>({3, 300, 280, 6, 2, 40, 40, 0}));
  const auto size = static_cast<size_t>(in.tokens * in.H * in.c);
  std::vector<float> o(size), dq(size), dk(size), dv(size), lse(size);
  attention_backward<float>(bench.exec, std::vector<int32_t>{0, 20, 300}, in.tokens, in.H, in.G,
                            in.c, 0.3f, in.q.data(), in.k.data(), in.v.data(), o.data(), lse.data(),
                            in.q.data(), dq.data(), dk.data(), dv.data());
  EXPECT_LE(bench.arena.peak(), scratch_bytes<float>({3, 300, 280, 6, 2, 40, 40, 0}));
}

TEST(AttentionDeathTest, SegmentsMustCoverTheTokens) {
  const Inputs in(10, 1, 1, 16);
  Bench bench(1, best_isa());
  EXPECT_DEATH(forward(bench.exec, in, {0, 9}), "segments");
  EXPECT_DEATH(forward(bench.exec, in, {0, 7, 5, 10}), "segments");
  EXPECT_DEATH(forward(bench.exec, in, {}), "segments");
}

}  // namespace
}  // namespace muster::ops
