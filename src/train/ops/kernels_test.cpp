// One table of every kernel but gemm (gemm_test.cpp), run over hostile sizes: float must equal
// double within the tolerance of fp32, and have the same bits on every instruction set and number
// of threads. Gradients are checked against central differences in double.
#include "train/ops/kernels.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <functional>

#include "train/ops/ops_fixture.h"

namespace muster::ops {
namespace {

template <class T>
using Values = std::vector<T>;

template <class T>
Values<T> joined(std::initializer_list<Values<T>> parts) {
  Values<T> all;
  for (const Values<T>& p : parts) all.insert(all.end(), p.begin(), p.end());
  return all;
}

template <class T>
Values<T> room(int64_t n) {
  return Values<T>(static_cast<size_t>(n), static_cast<T>(NAN));  // every output must be written
}

// ---- each kernel as a function of (exec, sizes) to its outputs

template <class T>
Values<T> rms_norm(Exec& exec, int64_t t, int64_t d) {
  const auto x = numbers<T>(t * d, 1), residual = numbers<T>(t * d, 2), w = numbers<T>(d, 3),
             dy = numbers<T>(t * d, 4), dres = numbers<T>(t * d, 5);
  auto h = room<T>(t * d), y = room<T>(t * d), r = room<T>(t), dh = room<T>(t * d);
  auto dw = numbers<T>(d, 6);
  rms_norm_forward<T>(exec, t, d, x.data(), residual.data(), w.data(), T(1e-5), h.data(), y.data(),
                      r.data());
  rms_norm_backward<T>(exec, t, d, dy.data(), h.data(), r.data(), w.data(), dres.data(), dh.data(),
                       dw.data(), T(1));
  auto y2 = room<T>(t * d), r2 = room<T>(t), dh2 = dy, dw2 = room<T>(d);
  rms_norm_forward<T>(exec, t, d, x.data(), nullptr, w.data(), T(1e-5), nullptr, y2.data(),
                      r2.data());
  rms_norm_backward<T>(exec, t, d, dh2.data(), x.data(), r2.data(), w.data(), nullptr, dh2.data(),
                       dw2.data(), T(0));
  return joined({h, y, r, dh, dw, y2, r2, dh2, dw2});
}

template <class T>
Values<T> layer_norm(Exec& exec, int64_t t, int64_t d) {
  const auto residual = numbers<T>(t * d, 2), w = numbers<T>(d, 3), b = numbers<T>(d, 7),
             dy = numbers<T>(t * d, 4), dres = numbers<T>(t * d, 5);
  auto h = numbers<T>(t * d, 1);  // h may be x
  auto y = room<T>(t * d), m = room<T>(t), r = room<T>(t), dw = room<T>(d);
  auto dh = dres, db = numbers<T>(d, 6);
  layer_norm_forward<T>(exec, t, d, h.data(), residual.data(), w.data(), b.data(), T(1e-5),
                        h.data(), y.data(), m.data(), r.data());
  layer_norm_backward<T>(exec, t, d, dy.data(), h.data(), m.data(), r.data(), w.data(), dh.data(),
                         dh.data(), dw.data(), nullptr, T(0));
  bias_backward<T>(exec, t, d, dy.data(), T(1), db.data());
  return joined({h, y, m, r, dh, dw, db});
}

template <class T>
Values<T> swiglu(Exec& exec, int64_t t, int64_t f) {
  auto gate_up = numbers<T>(2 * t * f, 1);
  for (T& x : gate_up) x *= T(6);
  const auto dy = numbers<T>(t * f, 2);
  auto y = room<T>(t * f);
  swiglu_forward<T>(exec, t, f, gate_up.data(), y.data());
  swiglu_backward<T>(exec, t, f, gate_up.data(), dy.data(), gate_up.data());
  return joined({y, gate_up});
}

template <class T>
Values<T> gelu(Exec& exec, int64_t t, int64_t f) {
  auto x = numbers<T>(t * f, 1);
  for (T& a : x) a *= T(5);
  const auto dy = numbers<T>(t * f, 2);
  auto y = room<T>(t * f);
  gelu_forward<T>(exec, t, f, x.data(), y.data());
  gelu_backward<T>(exec, t, f, x.data(), dy.data(), x.data());
  return joined({y, x});
}

std::vector<int32_t> integers(int64_t n, int32_t below, uint64_t key) {
  std::vector<int32_t> v(static_cast<size_t>(n));
  for (size_t i = 0; i < v.size(); ++i) {
    v[i] = static_cast<int32_t>(philox_below(static_cast<uint64_t>(below), key, i, 0));
  }
  return v;
}

template <class T>
Values<T> embedding(Exec& exec, int64_t t, int64_t d) {
  const auto ids = integers(t, 7, 1), positions = integers(t, 5, 2);
  const auto table = numbers<T>(9 * d, 1), places = numbers<T>(5 * d, 2), dy = numbers<T>(t * d, 3);
  auto y = room<T>(t * d), y2 = room<T>(t * d), dtable = room<T>(9 * d), dplaces = places;
  embedding_forward<T>(exec, t, d, ids.data(), table.data(), nullptr, nullptr, y.data());
  embedding_forward<T>(exec, t, d, ids.data(), table.data(), positions.data(), places.data(),
                       y2.data());
  embedding_backward<T>(exec, t, d, 9, ids.data(), dy.data(), T(0), dtable.data());
  embedding_backward<T>(exec, t, d, 5, positions.data(), dy.data(), T(1), dplaces.data());
  return joined({y, y2, dtable, dplaces});
}

template <class T>
Values<T> cross_entropy(Exec& exec, int64_t t, int64_t v) {
  const int64_t ld = v + 3;
  auto logits = numbers<T>(t * ld, 1), untouched = logits;
  auto targets = integers(t, static_cast<int32_t>(v), 2);
  if (t > 2) targets[1] = -1;
  auto loss = room<T>(t), loss2 = room<T>(t);
  softmax_cross_entropy<T>(exec, t, v, ld, untouched.data(), targets.data(), T(0), loss2.data());
  softmax_cross_entropy<T>(exec, t, v, ld, logits.data(), targets.data(), T(0.25), loss.data());
  EXPECT_TRUE(same_bits(untouched, numbers<T>(t * ld, 1))) << "evaluation changes no logit";
  EXPECT_TRUE(same_bits(loss, loss2));
  return joined({logits, loss});
}

template <class T>
Values<T> vectors(Exec& exec, int64_t t, int64_t d) {
  const int64_t n = t * d;
  const auto x = numbers<T>(n, 1), g = numbers<T>(n, 2);
  auto y = numbers<T>(n, 3), sum = room<T>(n), p = numbers<T>(n, 4), m = numbers<T>(n, 5),
       v = numbers<T>(n, 6);
  for (T& a : v) a = std::abs(a);
  add_in_place<T>(exec, n, x.data(), y.data());
  add<T>(exec, n, x.data(), y.data(), sum.data());
  const AdamWStep step{1e-2, 0.9, 0.95, 1e-8, 0.1, 0.271, 0.142625, 0.5};
  adamw<T>(exec, n, step, g.data(), p.data(), m.data(), v.data());
  const Values<T> squares = {static_cast<T>(sum_of_squares<T>(exec, n, x.data()))};
  return joined({y, sum, p, m, v, squares});
}

struct Heads {
  int64_t H, G, c;
};

std::vector<int32_t> segments_of(int64_t t, int pieces) {
  std::vector<int32_t> s = {0};
  for (int i = 1; i < pieces; ++i) s.push_back(static_cast<int32_t>(t * i * i / (pieces * pieces)));
  s.push_back(static_cast<int32_t>(t));
  return s;
}

template <class T>
Values<T> attention(Exec& exec, int64_t t, Heads s, int pieces) {
  const int64_t width = (s.H + 2 * s.G) * s.c, nq = s.H * t * s.c, nk = s.G * t * s.c;
  const auto qkv = numbers<T>(t * width, 1), dout = numbers<T>(t * s.H * s.c, 2);
  const auto table = numbers<T>(64 * s.c, 3);
  const auto positions = integers(t, 64, 4);
  const auto segments = segments_of(t, pieces);
  auto q = room<T>(nq), k = room<T>(nk), v = room<T>(nk), o = room<T>(t * s.H * s.c),
       lse = room<T>(s.H * t), dq = room<T>(nq), dk = room<T>(nk), dv = room<T>(nk),
       dqkv = room<T>(t * width);
  const T* rotation = s.c % 2 == 0 ? table.data() : nullptr;
  const T scale = T(0.7);
  rope_split_forward<T>(exec, t, s.H, s.G, s.c, qkv.data(), positions.data(), rotation, q.data(),
                        k.data(), v.data());
  attention_forward<T>(exec, segments, t, s.H, s.G, s.c, scale, q.data(), k.data(), v.data(),
                       o.data(), lse.data());
  attention_backward<T>(exec, segments, t, s.H, s.G, s.c, scale, q.data(), k.data(), v.data(),
                        o.data(), lse.data(), dout.data(), dq.data(), dk.data(), dv.data());
  rope_split_backward<T>(exec, t, s.H, s.G, s.c, dq.data(), dk.data(), dv.data(), positions.data(),
                         rotation, dqkv.data());
  return joined({q, o, lse, dq, dk, dv, dqkv});
}

// ---- the table

struct Op {
  std::string name;
  std::function<Values<float>(Exec&)> in_float;
  std::function<Values<double>(Exec&)> in_double;
  double tolerance;  // |float - double| <= tolerance (1 + |double|)
};

template <class Float, class Double>
Op op(std::string name, double tolerance, Float in_float, Double in_double) {
  return {std::move(name), in_float, in_double, tolerance};
}

std::vector<Op> ops() {
  std::vector<Op> all;
#define MUSTER_OP(function, tolerance, t, ...)                                                    \
  all.push_back(op(                                                                               \
      #function "(" #t " = " + std::to_string(t) + ", " + describe(__VA_ARGS__) + ")", tolerance, \
      [=](Exec& e) { return function<float>(e, t, __VA_ARGS__); },                                \
      [=](Exec& e) { return function<double>(e, t, __VA_ARGS__); }))
  const auto describe = [](auto... v) {
    std::string s;
    const auto add_one = [&](const auto& x) {
      if constexpr (std::is_same_v<std::decay_t<decltype(x)>, Heads>) {
        s += "H" + std::to_string(x.H) + " G" + std::to_string(x.G) + " c" + std::to_string(x.c) +
             " ";
      } else {
        s += std::to_string(x) + " ";
      }
    };
    (add_one(v), ...);
    return s;
  };
  for (int64_t t : {0, 1, 33, 130}) {
    for (int64_t d : {1, 15, 16, 50}) {
      MUSTER_OP(rms_norm, 2e-5, t, d);
      MUSTER_OP(layer_norm, 2e-3, t, d);  // d = 1 divides by sqrt(eps)
      MUSTER_OP(swiglu, 2e-6, t, d);
      MUSTER_OP(gelu, 2e-6, t, d);
      MUSTER_OP(embedding, 2e-6, t, d);
      MUSTER_OP(cross_entropy, 2e-6, t, d);
      MUSTER_OP(vectors, 1e-5, t, d);
    }
  }
  for (int64_t t : {0, 1, 17, 64, 65, 150}) {
    for (Heads s : {Heads{1, 1, 1}, Heads{2, 1, 16}, Heads{4, 2, 10}, Heads{3, 3, 32}}) {
      for (int pieces : {1, 3}) MUSTER_OP(attention, 2e-5, t, s, pieces);
    }
  }
#undef MUSTER_OP
  return all;
}

TEST(Kernels, FloatAgreesWithDouble) {
  Bench bench(1, best_isa()), reference(1, Isa::scalar);
  for (const Op& o : ops()) {
    const Values<float> got = o.in_float(bench.exec);
    const Values<double> want = o.in_double(reference.exec);
    ASSERT_EQ(got.size(), want.size());
    for (size_t i = 0; i < got.size(); ++i) {
      ASSERT_LE(std::abs(static_cast<double>(got[i]) - want[i]),
                o.tolerance * (1 + std::abs(want[i])))
          << o.name << " element " << i << ": " << got[i] << " against " << want[i];
    }
  }
}

TEST(Kernels, BitsAreEqualOnEveryInstructionSetAndThreadCount) {
  Bench reference(1, Isa::scalar);
  std::vector<std::unique_ptr<Bench>> others;
  for (Isa isa : isas()) {
    for (int threads : {1, 2, 3}) others.push_back(std::make_unique<Bench>(threads, isa));
  }
  for (const Op& o : ops()) {
    const Values<float> single = o.in_float(reference.exec);
    const Values<double> full = o.in_double(reference.exec);
    for (const auto& other : others) {
      const std::string where = o.name + " on " + std::string(isa_name(other->exec.isa)) +
                                " with " + std::to_string(other->exec.team.size()) + " threads";
      const Values<float> got = o.in_float(other->exec);
      for (size_t i = 0; i < got.size(); ++i) {
        ASSERT_EQ(std::bit_cast<uint32_t>(got[i]), std::bit_cast<uint32_t>(single[i]))
            << where << " element " << i << ": " << got[i] << " against " << single[i];
      }
      ASSERT_TRUE(same_bits(full, o.in_double(other->exec))) << where << " in double";
      ASSERT_EQ(other->arena.used(), 0u) << where << ": scratch was not given back";
    }
  }
}

TEST(Kernels, ARowDoesNotDependOnItsNeighbours) {
  const int64_t d = 50;
  const auto x = numbers<float>(40 * d, 1), w = numbers<float>(d, 2);
  Bench bench(2, best_isa());
  auto y = room<float>(40 * d), r = room<float>(40), alone = room<float>(d), r1 = room<float>(1);
  rms_norm_forward<float>(bench.exec, 40, d, x.data(), nullptr, w.data(), 1e-6f, nullptr, y.data(),
                          r.data());
  for (int64_t t = 0; t < 40; ++t) {
    rms_norm_forward<float>(bench.exec, 1, d, x.data() + t * d, nullptr, w.data(), 1e-6f, nullptr,
                            alone.data(), r1.data());
    ASSERT_TRUE(same_bits(alone, Values<float>(y.begin() + t * d, y.begin() + (t + 1) * d))) << t;
  }
}

TEST(Kernels, IgnoredTargetsHaveNoLossAndNoGradient) {
  Bench bench(1, best_isa());
  auto logits = numbers<float>(20, 1);
  const int32_t targets[] = {-1, 3};
  float loss[2];
  softmax_cross_entropy<float>(bench.exec, 2, 10, 10, logits.data(), targets, 1.0f, loss);
  EXPECT_EQ(loss[0], 0);
  EXPECT_TRUE(std::all_of(logits.begin(), logits.begin() + 10, [](float g) { return g == 0; }));
  EXPECT_GT(loss[1], 0);
}

TEST(Kernels, ExtremeLogitsGiveAFiniteLoss) {
  Bench bench(1, best_isa());
  std::vector<float> logits = {3e38f, -3e38f, 0, 1e30f, 5};
  const int32_t target = 0;
  float loss = NAN;
  softmax_cross_entropy<float>(bench.exec, 1, 5, 5, logits.data(), &target, 1.0f, &loss);
  EXPECT_EQ(loss, 0);
  EXPECT_EQ(logits, std::vector<float>({0, 0, 0, 0, 0}));
}

TEST(Kernels, NanReachesTheLoss) {
  Bench bench(1, best_isa());
  for (size_t at : {0u, 1u, 39u}) {
    auto logits = numbers<float>(40, 1);
    logits[at] = NAN;
    const int32_t target = 2;
    float loss = 0;
    softmax_cross_entropy<float>(bench.exec, 1, 40, 40, logits.data(), &target, 0.0f, &loss);
    EXPECT_TRUE(std::isnan(loss)) << at;
  }
}

TEST(KernelsDeathTest, IdsOutsideTheTableAreRefused) {
  Bench bench(1, best_isa());
  const int32_t id = 9;
  std::vector<float> v(40);
  EXPECT_DEATH(embedding_backward<float>(bench.exec, 1, 4, 9, &id, v.data(), 0.0f, v.data()), "9");
  float loss;
  EXPECT_DEATH(softmax_cross_entropy<float>(bench.exec, 1, 9, 9, v.data(), &id, 0.0f, &loss), "9");
}

// Summation by definition: a group of fixed size, then neighbours pairwise.
TEST(Kernels, TokenSumsHaveFixedRowBlocksAndABalancedTree) {
  Bench bench(3, best_isa());
  const int64_t tokens = 32 * 5 + 7, d = 3;
  const auto dy = numbers<float>(tokens * d, 1);
  std::vector<float> got(3);
  bias_backward<float>(bench.exec, tokens, d, dy.data(), 0.0f, got.data());
  for (int64_t i = 0; i < d; ++i) {
    std::vector<float> block(6, 0.0f);
    for (int64_t t = 0; t < tokens; ++t) {
      block[static_cast<size_t>(t / 32)] += dy[static_cast<size_t>(t * d + i)];
    }
    const float want = ((block[0] + block[1]) + (block[2] + block[3])) + (block[4] + block[5]);
    EXPECT_EQ(got[static_cast<size_t>(i)], want);
  }
}

}  // namespace
}  // namespace muster::ops
