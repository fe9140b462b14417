#include "train/spec/model_config.h"

#include <gtest/gtest.h>

#include <functional>
#include <nlohmann/json.hpp>

namespace muster {
namespace {

ModelConfig small_llama() {
  ModelConfig c;
  c.vocab_size = 96;
  c.hidden_size = 48;
  c.layers = 2;
  c.heads = 4;
  c.kv_heads = 2;
  c.head_dim = 12;
  c.mlp_size = 128;
  c.context = 64;
  return c;
}

ModelConfig small_gpt2() {
  ModelConfig c = small_llama();
  c.family = Family::gpt2;
  c.kv_heads = 4;
  c.norm_eps = 1e-5;
  c.tie_embeddings = true;
  return c;
}

std::string error_of(const Status& status) {
  return status.ok() ? "" : status.error().message();
}

TEST(ModelConfig, ImpossibleSizesAreNamed) {
  const struct {
    const char* name;
    std::function<void(ModelConfig&)> change;
    const char* want;
  } cases[] = {
      {"no vocabulary", [](ModelConfig& c) { c.vocab_size = 0; }, "vocab_size = 0"},
      {"negative layers", [](ModelConfig& c) { c.layers = -1; }, "layers = -1"},
      {"a size too large to multiply", [](ModelConfig& c) { c.mlp_size = 1 << 30; },
       "mlp_size = 1073741824"},
      {"layers that would fill memory with names", [](ModelConfig& c) { c.layers = 1 << 15; },
       "layers = 32768 must be in 1 … 16384"},
      {"sizes whose product is too large",
       [](ModelConfig& c) { c.hidden_size = c.mlp_size = c.vocab_size = 1 << 24; },
       "parameters; at most 17592186044416"},
      {"keys of a context that overflow",
       [](ModelConfig& c) {
         c.hidden_size = 2;
         c.heads = c.kv_heads = 1 << 14;
         c.head_dim = 1 << 12;
         c.context = 1 << 24;
         c.layers = 1 << 14;
       },
       "layers * kv_heads * head_dim * context"},
      {"groups that do not divide", [](ModelConfig& c) { c.kv_heads = 3; },
       "kv_heads = 3 must divide heads = 4"},
      {"odd head width", [](ModelConfig& c) { c.head_dim = 13; }, "head_dim = 13 must be even"},
      {"zero epsilon", [](ModelConfig& c) { c.norm_eps = 0; }, "norm_eps"},
      {"theta 1", [](ModelConfig& c) { c.rope_theta = 1; }, "rope_theta"},
      {"not a number", [](ModelConfig& c) { c.initializer_range = 0.0 / 0.0; },
       "initializer_range"},
  };
  EXPECT_TRUE(validate(small_llama()).ok());
  EXPECT_TRUE(validate(small_gpt2()).ok());
  for (const auto& c : cases) {
    SCOPED_TRACE(c.name);
    ModelConfig config = small_llama();
    c.change(config);
    EXPECT_NE(error_of(validate(config)).find(c.want), std::string::npos)
        << error_of(validate(config));
  }
  ModelConfig wide = small_gpt2();
  wide.head_dim = 14;
  EXPECT_NE(error_of(validate(wide)).find("heads * head_dim"), std::string::npos);
}

TEST(ModelConfig, ParametersOfPublishedModelsAreNear) {
  ModelConfig gpt2 = small_gpt2();  // GPT-2 of 124,439,808 parameters
  gpt2.vocab_size = 50257;
  gpt2.hidden_size = 768;
  gpt2.layers = gpt2.heads = gpt2.kv_heads = 12;
  gpt2.head_dim = 64;
  gpt2.mlp_size = 3072;
  gpt2.context = 1024;
  EXPECT_NEAR(about_parameters(gpt2), 124'439'808, 150'000);
  ModelConfig largest = small_llama();  // Llama 3.1 of 405,853,388,800 parameters
  largest.vocab_size = 128256;
  largest.hidden_size = 16384;
  largest.layers = 126;
  largest.heads = 128;
  largest.kv_heads = 8;
  largest.head_dim = 128;
  largest.mlp_size = 53248;
  largest.context = 131072;
  EXPECT_NEAR(about_parameters(largest), 405'853'388'800, 5e6);
  EXPECT_TRUE(validate(largest).ok());
}

TEST(HfConfig, WrittenTextReadsBackToTheSameConfig) {
  ModelConfig llama = small_llama();
  llama.rope_theta = 500000;
  llama.eos_id = 0;
  for (const ModelConfig& config : {llama, small_gpt2()}) {
    const auto back = parse_hf_config(format_hf_config(config, "float32"));
    ASSERT_TRUE(back.ok()) << back.error().to_string();
    EXPECT_EQ(*back, config);
  }
}

TEST(HfConfig, BothPlacesOfThetaAreRead) {
  auto j = nlohmann::json::parse(format_hf_config(small_llama(), "float32"));
  j.erase("rope_parameters");
  j["rope_theta"] = 12345.0;
  EXPECT_EQ(parse_hf_config(j.dump())->rope_theta, 12345.0);
  j["rope_parameters"] = {{"rope_theta", 777.0}, {"rope_type", "default"}};
  EXPECT_EQ(parse_hf_config(j.dump())->rope_theta, 777.0);
  j["rope_parameters"] = nullptr;
  j.erase("rope_theta");
  EXPECT_EQ(parse_hf_config(j.dump())->rope_theta, 10000.0);
}

TEST(HfConfig, WhatIsNotBuiltIsRefusedByName) {
  const struct {
    const char* family;
    const char* field;
    const char* value;
    const char* want;
  } cases[] = {
      {"llama", "rope_scaling", R"({"rope_type":"llama3","factor":8.0})", "rope_scaling.factor"},
      {"llama", "rope_parameters", R"({"rope_type":"yarn","rope_theta":5e5})",
       "rope_parameters.rope_type = \"yarn\""},
      {"llama", "attention_bias", "true", "attention_bias = true"},
      {"llama", "mlp_bias", "true", "mlp_bias = true"},
      {"llama", "sliding_window", "1024", "sliding_window = 1024"},
      {"llama", "hidden_act", "\"gelu\"", "hidden_act"},
      {"llama", "layer_types", R"(["full_attention","sliding_attention"])", "layer_types"},
      {"llama", "num_experts", "64", "num_experts = 64"},
      {"llama", "architectures", R"(["MixtralForCausalLM"])", "MixtralForCausalLM"},
      {"llama", "vocab_size", "\"many\"", "vocab_size"},
      {"llama", "num_attention_heads", "0", "num_attention_heads"},
      {"llama", "hidden_size", "null", "hidden_size is missing"},
      {"llama", "hidden_size", "9223372036854775807", "hidden_size = 9223372036854775807"},
      {"llama", "num_attention_heads", "-1", "num_attention_heads = -1 must be in"},
      {"gpt2", "n_embd", "4611686018427387904", "n_embd = 4611686018427387904 must be in"},
      {"gpt2", "n_inner", "0", "n_inner = 0"},
      {"gpt2", "activation_function", "\"relu\"", "activation_function"},
      {"gpt2", "scale_attn_weights", "false", "scale_attn_weights = false"},
      {"gpt2", "scale_attn_by_inverse_layer_idx", "true", "scale_attn_by_inverse_layer_idx"},
      {"gpt2", "n_head", "5", "n_head = 5 must divide"},
  };
  for (const auto& c : cases) {
    SCOPED_TRACE(std::string(c.field) + " = " + c.value);
    auto j = nlohmann::json::parse(format_hf_config(
        c.family == std::string("llama") ? small_llama() : small_gpt2(), "float32"));
    j[c.field] = nlohmann::json::parse(c.value);
    const auto config = parse_hf_config(j.dump());
    ASSERT_FALSE(config.ok());
    EXPECT_NE(config.error().to_string().find(c.want), std::string::npos)
        << config.error().to_string();
  }
}

TEST(HfConfig, TextThatIsNoModelIsAnError) {
  EXPECT_EQ(parse_hf_config("[1]").error().code(), Code::corrupt);
  EXPECT_EQ(parse_hf_config("{\"a\":").error().code(), Code::corrupt);
  EXPECT_EQ(parse_hf_config("{}").error().code(), Code::invalid_argument);
}

TEST(ModelConfig, FamilyNames) {
  for (Family f : {Family::llama, Family::gpt2}) EXPECT_EQ(*parse_family(family_name(f)), f);
  EXPECT_NE(parse_family("lama").error().message().find("llama, gpt2"), std::string::npos);
}

}  // namespace
}  // namespace muster
