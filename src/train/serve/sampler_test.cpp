#include "train/serve/sampler.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <vector>

namespace muster {
namespace {

const std::vector<double> kLogits = {1.0, 3.0, 2.0, 3.0, -50.0};

std::map<int32_t, double> shares(const Sampling& sampling, int draws) {
  std::map<int32_t, double> counts;
  for (int i = 0; i < draws; ++i) counts[*sample(std::span(kLogits), sampling, i)] += 1.0 / draws;
  return counts;
}

TEST(Sampler, GreedyTakesTheFirstOfTheLargest) {
  EXPECT_EQ(*sample(std::span(kLogits), Sampling{}, 0), 1);
  const std::vector<float> one = {0.5F};
  EXPECT_EQ(*sample(std::span(one), Sampling{}, 0), 0);
}

TEST(Sampler, DrawsFollowTheSoftmax) {
  const auto counts = shares({.temperature = 2.0, .seed = 9}, 20000);
  double total = 0;
  for (double l : kLogits) total += std::exp(l / 2);
  for (size_t i = 0; i < kLogits.size(); ++i) {
    const double want = std::exp(kLogits[i] / 2) / total;
    const auto it = counts.find(static_cast<int32_t>(i));
    EXPECT_NEAR(it == counts.end() ? 0 : it->second, want, 0.015) << i;
  }
}

TEST(Sampler, TopKAndTopPCutTheTail) {
  const struct {
    const char* name;
    Sampling sampling;
    std::vector<int32_t> want;
  } cases[] = {
      {"the single best", {.temperature = 1, .top_k = 1}, {1}},
      {"the best two: ties by id", {.temperature = 1, .top_k = 2}, {1, 3}},
      {"k above the vocabulary", {.temperature = 1, .top_k = 99}, {0, 1, 2, 3}},
      {"the token that crosses p is kept", {.temperature = 1, .top_p = 0.5}, {1, 3}},
      {"a tiny p keeps the best", {.temperature = 1, .top_p = 1e-9}, {1}},
      {"k, then p of what k left", {.temperature = 1, .top_k = 2, .top_p = 0.4}, {1}},
  };
  for (const auto& c : cases) {
    SCOPED_TRACE(c.name);
    std::vector<int32_t> seen;
    for (const auto& [id, share] : shares(c.sampling, 2000)) seen.push_back(id);
    EXPECT_EQ(seen, c.want);
  }
}

TEST(Sampler, ADrawDependsOnSeedAndPositionAlone) {
  const Sampling a{.temperature = 1, .seed = 1}, b{.temperature = 1, .seed = 2};
  int differ = 0;
  for (int i = 0; i < 100; ++i) {
    EXPECT_EQ(*sample(std::span(kLogits), a, i), *sample(std::span(kLogits), a, i));
    differ += *sample(std::span(kLogits), a, i) != *sample(std::span(kLogits), b, i);
  }
  EXPECT_GT(differ, 10);
}

TEST(Sampler, BrokenLogitsAndSettingsAreErrors) {
  for (double bad : {std::nan(""), HUGE_VAL, -HUGE_VAL}) {
    const std::vector<double> logits = {0, bad};
    EXPECT_EQ(sample(std::span(logits), Sampling{}, 0).error().code(), Code::corrupt);
  }
  for (const Sampling& s : {Sampling{.temperature = -1}, Sampling{.temperature = std::nan("")},
                            Sampling{.top_k = -1}, Sampling{.top_p = 0}, Sampling{.top_p = 1.5}})
    EXPECT_EQ(validate(s).error().code(), Code::invalid_argument);
}

}  // namespace
}  // namespace muster
