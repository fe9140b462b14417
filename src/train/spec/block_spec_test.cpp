#include "train/spec/block_spec.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>

namespace muster {
namespace {

// JetBrains' Mellum-4b (arXiv 2510.05788): 30 layers, 3072 wide, MLP 8256, 24 heads without groups,
// untied. 98,304 rows of the embedding are those of the published Mellum-4b-sft-python.
ModelConfig mellum_4b() {
  ModelConfig c;
  c.vocab_size = 98304;
  c.hidden_size = 3072;
  c.layers = 30;
  c.heads = c.kv_heads = 24;
  c.head_dim = 128;
  c.mlp_size = 8256;
  c.context = 8192;
  c.rope_theta = 500000;
  return c;
}

ModelConfig gpt2_124m() {
  ModelConfig c;
  c.family = Family::gpt2;
  c.vocab_size = 50257;
  c.hidden_size = 768;
  c.layers = 12;
  c.heads = c.kv_heads = 12;
  c.head_dim = 64;
  c.mlp_size = 3072;
  c.context = 1024;
  c.norm_eps = 1e-5;
  c.tie_embeddings = true;
  return c;
}

ModelConfig odd_llama() {  // widths that are no multiple of the alignment
  ModelConfig c;
  c.vocab_size = 37;
  c.hidden_size = 18;
  c.layers = 3;
  c.heads = 3;
  c.kv_heads = 1;
  c.head_dim = 6;
  c.mlp_size = 22;
  c.context = 32;
  return c;
}

ModelSpec spec_of(const ModelConfig& config, Real real = Real::f32) {
  return *make_model_spec(config, real);
}

TEST(ModelSpec, ParameterCountsOfPublishedModels) {
  EXPECT_EQ(spec_of(mellum_4b()).parameter_count(), 4'019'248'128);
  EXPECT_EQ(spec_of(gpt2_124m()).parameter_count(), 124'439'808);
  ModelConfig short_vocabulary = mellum_4b();
  short_vocabulary.vocab_size = 49152;
  EXPECT_EQ(spec_of(short_vocabulary).parameter_count(), 3'717'258'240);
}

TEST(ModelSpec, FlopFormulaOfMellum2) {
  // The count applies to its active matmul parameters (8 of 64 experts and the router); the model
  // itself is not dense, so only the formula is checked here: 21 layers with a window of 1,024, 7
  // full ones, 8,192 tokens.
  const int64_t pairs = 21 * visible_pairs(8192, 1024) + 7 * visible_pairs(8192, 0);
  const double per_token =
      static_cast<double>(training_flops(2'212'429'824, 8192, 32 * 128 * pairs)) / 8192;
  EXPECT_NEAR(per_token / 1e9, 15.675, 0.0005);
}

TEST(ModelSpec, VisiblePairsCountKeysOneByOne) {
  for (int64_t length : {1, 2, 5, 17}) {
    for (int64_t window : {0, 1, 2, 5, 16, 17, 40}) {
      int64_t want = 0;
      for (int64_t t = 0; t < length; ++t) want += window == 0 ? t + 1 : std::min(t + 1, window);
      EXPECT_EQ(visible_pairs(length, window), want) << length << " " << window;
    }
  }
}

TEST(ModelSpec, BlocksCostsSumToTheModelsFlops) {
  for (const ModelConfig& config : {mellum_4b(), gpt2_124m(), odd_llama()}) {
    const ModelSpec spec = spec_of(config);
    const Workload work = Workload::causal(3, 31);
    int64_t sum = 0;
    for (const BlockSpec& b : spec.blocks)
      for (BlockPhase p :
           {BlockPhase::forward, BlockPhase::backward_input, BlockPhase::backward_weight})
        sum += b.cost(work, p).flops;
    EXPECT_EQ(sum, spec.training_flops(work));
  }
}

TEST(ModelSpec, UnitsTileTheirBuffersAndFusedGroupsHaveNoGap) {
  for (const ModelConfig& config : {mellum_4b(), gpt2_124m(), odd_llama()}) {
    const ModelSpec spec = spec_of(config);
    ASSERT_EQ(spec.units.size(), static_cast<size_t>(config.layers) + 1);
    std::set<std::string> names;
    for (size_t u = 0; u < spec.units.size(); ++u) {
      int64_t end = 0;
      for (int index : spec.units[u].params) {
        const Param& p = spec.params[index];
        EXPECT_EQ(p.unit, static_cast<int>(u));
        EXPECT_TRUE(names.insert(p.name).second) << p.name;
        const bool follows = p.name.ends_with("k_proj.weight") ||
                             p.name.ends_with("v_proj.weight") ||
                             p.name.ends_with("up_proj.weight");
        if (follows) {
          EXPECT_EQ(p.offset, end) << p.name;
        } else {
          EXPECT_EQ(p.offset % kUnitAlignment, 0) << p.name;
          EXPECT_LT(p.offset - end, kUnitAlignment);
        }
        end = p.offset + p.count();
      }
      EXPECT_GE(spec.units[u].elements, end);
      EXPECT_EQ(spec.units[u].elements % kUnitAlignment, 0);
    }
    EXPECT_EQ(names.size(), spec.params.size());
  }
}

TEST(ModelSpec, OnlyMatricesDecay) {
  for (const ModelConfig& config : {mellum_4b(), gpt2_124m()})
    for (const Param& p : spec_of(config).params)
      EXPECT_EQ(p.weight_decay, p.shape.size() == 2) << p.name;
}

TEST(ModelSpec, ResidualProjectionsStartSmaller) {
  const ModelSpec spec = spec_of(gpt2_124m());
  EXPECT_EQ(spec.find("transformer.h.0.attn.c_attn.weight")->init.std, 0.02);
  EXPECT_DOUBLE_EQ(spec.find("transformer.h.11.mlp.c_proj.weight")->init.std,
                   0.02 / std::sqrt(24.0));
  EXPECT_EQ(spec.find("transformer.h.0.ln_1.weight")->init.kind, InitKind::ones);
  EXPECT_EQ(spec.find("transformer.h.0.attn.c_attn.bias")->init.kind, InitKind::zeros);
  EXPECT_EQ(spec.find("lm_head.weight"), nullptr);  // tied
}

TEST(BlockSpec, FramesAreAlignedAndDisjoint) {
  for (Real real : {Real::f32, Real::f64}) {
    for (const ModelConfig& config : {gpt2_124m(), odd_llama()}) {
      for (const BlockSpec& b : spec_of(config, real).blocks) {
        SCOPED_TRACE(b.name);
        int64_t costly = 0, cheap = 0;
        for (const Saved& s : b.saved(13)) {
          if (s.cls == SavedClass::input) continue;
          int64_t& end = s.cls == SavedClass::costly ? costly : cheap;
          EXPECT_EQ(s.offset % kFrameAlignment, 0) << s.name;
          EXPECT_GE(s.offset, end) << s.name;
          end = s.offset + s.bytes();
        }
        EXPECT_GE(b.costly_bytes(13), costly);
        EXPECT_LT(b.costly_bytes(13), costly + kFrameAlignment);
        EXPECT_GE(b.cheap_bytes(13), cheap);
        EXPECT_LT(b.cheap_bytes(13), cheap + kFrameAlignment);
      }
    }
  }
}

TEST(BlockSpec, RecomputingSkipsTheLastProduct) {
  const ModelSpec spec = spec_of(mellum_4b());
  const Workload work = Workload::causal(1, 8192);
  const BlockSpec& attention = spec.blocks[1];
  EXPECT_TRUE(attention.recomputable());
  EXPECT_EQ(attention.cost(work, BlockPhase::recompute).flops, 0);
  EXPECT_EQ(attention.cost(work, BlockPhase::forward).flops -
                attention.cost(work, BlockPhase::recompute).repeated_flops,
            2 * work.tokens * 3072 * 3072);
  EXPECT_FALSE(spec.blocks.back().recomputable());
}

}  // namespace
}  // namespace muster
