#include "train/optim/adamw.h"

#include <gtest/gtest.h>

#include <cmath>

#include "train/optim/clipping.h"

namespace muster {
namespace {

ModelSpec tiny_spec(Family family) {
  ModelConfig c;
  c.family = family;
  c.vocab_size = 7;
  c.hidden_size = 6;
  c.layers = 2;
  c.heads = 3;
  c.kv_heads = 3;
  c.head_dim = 2;
  c.mlp_size = 5;
  c.context = 8;
  return *make_model_spec(c, Real::f32);
}

class OptimTest : public ::testing::Test {
 protected:
  ThreadTeam team_{2};
  Arena arena_ = *Arena::make(size_t{8} << 20, false);
  ops::Exec exec_{team_, arena_, ops::Isa::scalar, ops::Mode::strict};
};

TEST_F(OptimTest, RunsCoverEveryParameterOnceAndNoGap) {
  for (Family family : {Family::llama, Family::gpt2}) {
    const ModelSpec spec = tiny_spec(family);
    for (size_t u = 0; u < spec.units.size(); ++u) {
      for (DecayPolicy policy : {DecayPolicy::matrices, DecayPolicy::all}) {
        std::vector<int> seen(static_cast<size_t>(spec.units[u].elements), -1);
        for (const DecayRun& run : decay_runs(spec, static_cast<int>(u), policy)) {
          for (int64_t i = run.begin; i < run.end; ++i) {
            EXPECT_EQ(seen[static_cast<size_t>(i)], -1);
            seen[static_cast<size_t>(i)] = run.decays;
          }
        }
        for (int index : spec.units[u].params) {
          const Param& p = spec.params[static_cast<size_t>(index)];
          for (int64_t i = p.offset; i < p.offset + p.count(); ++i) {
            EXPECT_EQ(seen[static_cast<size_t>(i)], p.weight_decay || policy == DecayPolicy::all)
                << p.name;
            seen[static_cast<size_t>(i)] = -1;
          }
        }
        for (int s : seen) EXPECT_EQ(s, -1);  // gaps belong to no run
      }
    }
  }
}

TEST_F(OptimTest, TwoUpdatesByHand) {
  // One matrix element p = 2 with gradients 0.5, then -1; scale 0.5; lr 0.1, betas 0.9, 0.99, decay
  // 0.1.
  const DecayRun run{0, 1, true};
  AdamW adamw{0.9, 0.99, 1e-8, 0.1, DecayPolicy::matrices};
  double p = 2, m = 0, v = 0, want_p = 2, want_m = 0, want_v = 0;
  int64_t done = 0;
  for (double gradient : {0.5, -1.0}) {
    update_unit<double>(exec_, std::span(&run, 1), adamw_step(adamw, 0.1, done, 0.5), &gradient, &p,
                        &m, &v);
    ++done;
    const double g = gradient * 0.5;
    want_m = 0.9 * want_m + 0.1 * g;
    want_v = 0.99 * want_v + 0.01 * g * g;
    const double m_hat = want_m / (1 - std::pow(0.9, done)),
                 v_hat = want_v / (1 - std::pow(0.99, done));
    want_p = want_p * (1 - 0.1 * 0.1) - 0.1 * m_hat / (std::sqrt(v_hat) + 1e-8);
    EXPECT_NEAR(p, want_p, 1e-14);
    EXPECT_NEAR(m, want_m, 1e-15);
    EXPECT_NEAR(v, want_v, 1e-15);
  }
}

TEST_F(OptimTest, GapsAreLeftAlone) {
  const ModelSpec spec = tiny_spec(Family::gpt2);
  const auto n = static_cast<size_t>(spec.units[1].elements);
  std::vector<float> p(n, 7), g(n, 1), m(n, 3), v(n, 3);
  const auto runs = decay_runs(spec, 1, DecayPolicy::matrices);
  update_unit<float>(exec_, runs, adamw_step(AdamW{}, 0.1, 0, 1), g.data(), p.data(), m.data(),
                     v.data());
  int64_t gap = 0, end = 0;
  for (const DecayRun& run : runs) {
    for (int64_t i = end; i < run.begin; ++i, ++gap)
      EXPECT_TRUE(p[i] == 7 && m[i] == 3 && v[i] == 3);
    for (int64_t i = run.begin; i < run.end; ++i) EXPECT_NE(p[i], 7);
    end = run.end;
  }
  EXPECT_GT(gap, 0);
}

TEST_F(OptimTest, NormIsThatOfTheParametersAndClipsToTheBound) {
  const ModelSpec spec = tiny_spec(Family::llama);
  std::vector<double> squares(spec.params.size());
  double want = 0;
  size_t at = 0;
  for (size_t u = 0; u < spec.units.size(); ++u) {
    std::vector<float> g(static_cast<size_t>(spec.units[u].elements),
                         1e30F);  // gaps must not count
    for (int index : spec.units[u].params) {
      const Param& p = spec.params[static_cast<size_t>(index)];
      for (int64_t i = 0; i < p.count(); ++i) {
        g[static_cast<size_t>(p.offset + i)] = static_cast<float>(i % 5) * 0.125F;
        want += static_cast<double>(i % 5) * 0.125 * static_cast<double>(i % 5) * 0.125;
      }
    }
    squares_of_unit<float>(exec_, spec, static_cast<int>(u), g.data(), squares.data() + at);
    at += spec.units[u].params.size();
  }
  EXPECT_EQ(at, squares.size());
  const double norm = std::sqrt(want);
  const Clipping clipped = clip(squares, 0.5, 1.0);
  EXPECT_NEAR(clipped.norm, 0.5 * norm, 1e-12);
  EXPECT_NEAR(clipped.factor * norm, 1.0, 1e-5);
  EXPECT_TRUE(clipped.finite);
  EXPECT_EQ(clip(squares, 0.5, 0).factor, 0.5);    // no bound
  EXPECT_EQ(clip(squares, 0.5, 1e9).factor, 0.5);  // below it
}

TEST_F(OptimTest, NormOfBrokenGradientsIsNotFinite) {
  for (double bad : {HUGE_VAL, std::nan("")}) {
    const double squares[] = {1.0, bad, 2.0};
    EXPECT_FALSE(clip(squares, 1.0, 1.0).finite);
  }
  EXPECT_TRUE(clip(std::span<const double>(), 1.0, 1.0).finite);
}

TEST_F(OptimTest, ImpossibleSettingsAreNamed) {
  EXPECT_TRUE(validate(AdamW{}).ok());
  EXPECT_NE(validate(AdamW{1.0}).error().message().find("beta1 = 1"), std::string::npos);
  EXPECT_FALSE(validate(AdamW{0.9, -0.1}).ok());
  EXPECT_FALSE(validate(AdamW{0.9, 0.9, 0}).ok());
  EXPECT_FALSE(validate(AdamW{0.9, 0.9, 1e-8, std::nan("")}).ok());
}

}  // namespace
}  // namespace muster
