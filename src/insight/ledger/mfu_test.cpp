#include "insight/ledger/mfu.h"

#include <gtest/gtest.h>

namespace muster {
namespace {

// Llama-3-8B: 32 layers, 32 heads of 128, 8.03 G parameters of which the embedding (128,256 x
// 4,096) is no matrix product.
FlopShape llama3_8b(int64_t context) {
  return {.parameters = 8'030'261'248,
          .matmul_parameters = 8'030'261'248 - int64_t{128'256} * 4096,
          .heads = 32,
          .head_size = 128,
          .context = context,
          .windows = std::vector<int64_t>(32, 0)};
}

TEST(Mfu, Mellum2CountsAsTheStepProgramDoes) {
  FlopShape mellum2{
      .matmul_parameters = 2'212'429'824, .heads = 32, .head_size = 128, .context = 8192};
  for (int layer = 0; layer < 28; ++layer) mellum2.windows.push_back(layer % 4 == 3 ? 0 : 1024);
  EXPECT_NEAR(flops_per_token(FlopCount::exact, mellum2) / 1e9, 15.675, 0.0005);
}

TEST(Mfu, FullAgainstCausalOfLlama3) {
  const auto ratio = [](int64_t context) {
    const FlopShape s = llama3_8b(context);
    return flops_per_token(FlopCount::full, s) / flops_per_token(FlopCount::causal, s);
  };
  EXPECT_NEAR(ratio(8192), 1.125, 0.002);
  EXPECT_NEAR(ratio(131'072), 1.70, 0.01);
}

TEST(Mfu, CountsOfASmallModelByHand) {
  // 2 layers, one with a window of 4 in 8 tokens.
  const FlopShape s{.parameters = 1000,
                    .matmul_parameters = 900,
                    .heads = 2,
                    .head_size = 8,
                    .context = 8,
                    .windows = {0, 4}};
  EXPECT_EQ(flops_per_token(FlopCount::six_n, s), 6000);
  EXPECT_EQ(flops_per_token(FlopCount::palm, s), 6000 + 12 * 2 * 16 * 8);
  EXPECT_EQ(flops_per_token(FlopCount::full, s), 5400 + 6 * 2 * 2 * 16 * 8);
  EXPECT_EQ(flops_per_token(FlopCount::causal, s), 5400 + 6 * 2 * 16 * 8);
  EXPECT_EQ(flops_per_token(FlopCount::window, s), 5400 + 12 * 16 * (8 + 4));
  // Causal: 4.5 keys on average. Window 4: tokens see 1, 2, 3, 4, 4, 4, 4, 4 = 26 / 8.
  EXPECT_DOUBLE_EQ(flops_per_token(FlopCount::exact, s), 5400 + 12 * 16 * (4.5 + 26.0 / 8));
}

TEST(Mfu, PackedDocumentsSeeOnlyThemselves) {
  EXPECT_DOUBLE_EQ(mean_visible_keys_packed({3, 1}), (1 + 2 + 3 + 1) / 4.0);
  EXPECT_DOUBLE_EQ(mean_visible_keys_packed({8}), mean_visible_keys(8, 0));
  EXPECT_DOUBLE_EQ(mean_visible_keys(8, 8), mean_visible_keys(8, 0));
  EXPECT_EQ(mean_visible_keys_packed({}), 0);
}

TEST(Mfu, AValueAlwaysCarriesItsLabelsAndNeedsABase) {
  const PeakRate peak{100, "measured-peak"};
  const auto value = mfu("exact", 10, 4, 2, peak);
  ASSERT_TRUE(value.has_value());
  EXPECT_EQ(value->label, "exact/measured-peak");
  EXPECT_DOUBLE_EQ(value->value, 0.2);
  EXPECT_EQ(mfu_text(*value), "exact/measured-peak 20.0 %");
  EXPECT_EQ(hfu("exact", 10, 5, 4, 2, peak)->label, "hfu[exact]/measured-peak");
  EXPECT_DOUBLE_EQ(hfu("exact", 10, 5, 4, 2, peak)->value, 0.3);
  EXPECT_FALSE(mfu("exact", 10, 4, 2, std::nullopt).has_value());
  EXPECT_FALSE(mfu("exact", 10, 4, 0, peak).has_value());
}

TEST(Mfu, PublishedPeaksAreFoundByDeviceName) {
  EXPECT_EQ(published_peak("NVIDIA H100 80GB HBM3")->flops_per_s, 989e12);
  EXPECT_EQ(published_peak("NVIDIA H100 NVL")->flops_per_s, 835e12);
  EXPECT_EQ(published_peak("NVIDIA H200")->flops_per_s, 989e12);
  EXPECT_EQ(published_peak("NVIDIA H20")->flops_per_s, 148e12);
  EXPECT_FALSE(published_peak("AMD EPYC").has_value());
}

TEST(Mfu, LabelsConvertBothWays) {
  for (const FlopCount c : {FlopCount::six_n, FlopCount::palm, FlopCount::full, FlopCount::window,
                            FlopCount::causal, FlopCount::exact})
    EXPECT_EQ(flop_count_from_label(flop_count_label(c)), c);
  EXPECT_FALSE(flop_count_from_label("mfu").has_value());
}

}  // namespace
}  // namespace muster
