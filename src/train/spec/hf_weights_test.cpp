#include "train/spec/hf_weights.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <map>

#include "sys/sim_files.h"

namespace muster {
namespace {

ModelConfig tiny(Family family, bool tied) {
  ModelConfig c;
  c.family = family;
  c.vocab_size = 5;
  c.hidden_size = 4;
  c.layers = 1;
  c.heads = 2;
  c.kv_heads = family == Family::gpt2 ? 2 : 1;
  c.head_dim = 2;
  c.mlp_size = 3;
  c.context = 8;
  c.tie_embeddings = tied;
  return c;
}

struct Stored {
  Dtype dtype = Dtype::f32;
  std::vector<int64_t> shape;
  std::vector<std::byte> bytes;
};

// Every parameter of the spec with values that name their place.
std::map<std::string, Stored> weights_of(const ModelSpec& spec) {
  std::map<std::string, Stored> all;
  float next = 0.5F;
  for (const Param& p : spec.params) {
    std::vector<float> values(static_cast<size_t>(p.count()));
    for (float& v : values) v = next += 0.25F;
    const auto bytes = std::as_bytes(std::span(values));
    all[p.name] = {Dtype::f32, p.shape, {bytes.begin(), bytes.end()}};
  }
  return all;
}

class HfWeightsTest : public ::testing::Test {
 protected:
  void write(const std::string& file, const std::map<std::string, Stored>& weights) {
    std::vector<SafetensorsTensor> tensors;
    std::vector<std::span<const std::byte>> data;
    for (const auto& [name, stored] : weights) {
      tensors.push_back({name, stored.dtype, stored.shape, 0, 0});
      data.push_back(stored.bytes);
    }
    const auto status = write_safetensors(files_, file, tensors, data, {{"format", "pt"}});
    ASSERT_TRUE(status.ok()) << status.error().to_string();
  }
  std::string open_error(const ModelSpec& spec) {
    const auto weights = HfWeights::open(files_, "hf", spec);
    return weights.ok() ? "" : weights.error().to_string();
  }

  SimClock clock_;
  SimFiles files_{clock_};
};

TEST_F(HfWeightsTest, AWrittenFolderReadsBackBitForBit) {
  for (bool tied : {false, true}) {
    for (Family family : {Family::llama, Family::gpt2}) {
      const ModelSpec spec = *make_model_spec(tiny(family, tied), Real::f32);
      const auto stored = weights_of(spec);
      ASSERT_TRUE(write_hf_folder(files_, "out", spec, [&](const Param& p) {
                    return std::span<const std::byte>(stored.at(p.name).bytes);
                  }).ok());
      const auto config = read_hf_config(files_, "out");
      ASSERT_TRUE(config.ok()) << config.error().to_string();
      EXPECT_EQ(*config, spec.config);
      auto weights = HfWeights::open(files_, "out", spec);
      ASSERT_TRUE(weights.ok()) << weights.error().to_string();
      for (const Param& p : spec.params) {
        std::vector<float> back(static_cast<size_t>(p.count()));
        ASSERT_TRUE(weights->read(p, std::span(back)).ok());
        EXPECT_EQ(std::memcmp(back.data(), stored.at(p.name).bytes.data(), back.size() * 4), 0)
            << p.name;
      }
      ASSERT_TRUE(remove_tree(files_, "out").ok());
    }
  }
}

TEST_F(HfWeightsTest, ShardsAreFoundThroughTheIndex) {
  const ModelSpec spec = *make_model_spec(tiny(Family::llama, false), Real::f32);
  std::map<std::string, Stored> parts[2];
  std::string map;
  int i = 0;
  for (const auto& [name, stored] : weights_of(spec)) {
    parts[i % 2][name] = stored;
    map += (map.empty() ? "\"" : ",\"") + name + "\":\"model-" + std::to_string(i++ % 2) +
           ".safetensors\"";
  }
  ASSERT_TRUE(make_directories(files_, "hf").ok());
  for (int p = 0; p < 2; ++p) write("hf/model-" + std::to_string(p) + ".safetensors", parts[p]);
  const std::string index = "hf/model.safetensors.index.json";
  ASSERT_TRUE(write_file_durably(files_, index, "{\"weight_map\":{" + map + "}}").ok());
  EXPECT_EQ(open_error(spec), "");

  ASSERT_TRUE(
      write_file_durably(files_, index, R"({"weight_map":{"a":"../secret.safetensors"}})").ok());
  EXPECT_NE(open_error(spec).find("not a plain file name"), std::string::npos);
  ASSERT_TRUE(write_file_durably(files_, index, "[]").ok());
  EXPECT_NE(open_error(spec).find("weight_map"), std::string::npos);
}

TEST_F(HfWeightsTest, NarrowTypesWidenExactly) {
  const ModelSpec spec = *make_model_spec(tiny(Family::llama, true), Real::f32);
  auto weights = weights_of(spec);
  const auto set = [&](Dtype dtype, const std::vector<uint16_t>& values) {
    const auto bytes = std::as_bytes(std::span(values));
    weights["model.norm.weight"] = {dtype, {4}, {bytes.begin(), bytes.end()}};
    EXPECT_TRUE(make_directories(files_, "hf").ok());
    write("hf/model.safetensors", weights);
    auto opened = HfWeights::open(files_, "hf", spec);
    EXPECT_TRUE(opened.ok());
    std::vector<double> out(4);
    EXPECT_TRUE(opened->read(*spec.find("model.norm.weight"), std::span(out)).ok());
    return out;
  };
  // one, -2, the smallest subnormal, the largest number
  EXPECT_EQ(set(Dtype::f16, {0x3c00, 0xc000, 0x0001, 0x7bff}),
            (std::vector<double>{1, -2, 0x1p-24, 65504}));
  EXPECT_EQ(set(Dtype::bf16, {0x3f80, 0xc000, 0x0001, 0x7f7f}),
            (std::vector<double>{1, -2, 0x1p-133, 0x1.fep127}));
  const auto special = set(Dtype::f16, {0x8000, 0x7c00, 0xfc00, 0x7e00});
  EXPECT_TRUE(std::signbit(special[0]) && special[0] == 0);
  EXPECT_EQ(special[1], HUGE_VAL);
  EXPECT_EQ(special[2], -HUGE_VAL);
  EXPECT_TRUE(std::isnan(special[3]));
}

TEST_F(HfWeightsTest, NamesOfOlderFilesAreUnderstood) {
  const ModelSpec spec = *make_model_spec(tiny(Family::gpt2, true), Real::f32);
  std::map<std::string, Stored> bare;  // as the first GPT-2 files: no prefix, mask buffers kept
  for (const auto& [name, stored] : weights_of(spec))
    bare[name.substr(std::strlen("transformer."))] = stored;
  bare["h.0.attn.bias"] = {Dtype::f32, {1, 1, 8, 8}, std::vector<std::byte>(256)};
  bare["h.0.attn.masked_bias"] = {Dtype::f32, {}, std::vector<std::byte>(4)};
  ASSERT_TRUE(make_directories(files_, "hf").ok());
  write("hf/model.safetensors", bare);
  EXPECT_EQ(open_error(spec), "");
}

TEST_F(HfWeightsTest, ATiedHeadMayBeStoredOnlyAsACopy) {
  const ModelSpec spec = *make_model_spec(tiny(Family::llama, true), Real::f32);
  auto weights = weights_of(spec);
  weights["lm_head.weight"] = weights["model.embed_tokens.weight"];
  ASSERT_TRUE(make_directories(files_, "hf").ok());
  write("hf/model.safetensors", weights);
  EXPECT_EQ(open_error(spec), "");
  weights.erase("model.embed_tokens.weight");
  write("hf/model.safetensors", weights);
  EXPECT_EQ(open_error(spec), "");
  weights["model.embed_tokens.weight"] = weights["lm_head.weight"];
  weights["lm_head.weight"].bytes[7] ^= std::byte{1};
  write("hf/model.safetensors", weights);
  EXPECT_NE(open_error(spec).find("differ although config.json ties them"), std::string::npos);
}

TEST_F(HfWeightsTest, WhatDoesNotFitIsNamed) {
  const ModelSpec spec = *make_model_spec(tiny(Family::llama, false), Real::f32);
  const auto whole = weights_of(spec);
  EXPECT_NE(open_error(spec).find("neither model.safetensors nor"), std::string::npos);
  ASSERT_TRUE(make_directories(files_, "hf").ok());
  ASSERT_TRUE(write_file_durably(files_, "hf/pytorch_model.bin", "x").ok());
  EXPECT_NE(open_error(spec).find("pickled"), std::string::npos);

  auto weights = whole;
  weights.erase("lm_head.weight");
  write("hf/model.safetensors", weights);
  EXPECT_NE(open_error(spec).find("missing: lm_head.weight"), std::string::npos);

  weights = whole;
  weights["model.layers.1.mlp.up_proj.weight"] = weights["model.layers.0.mlp.up_proj.weight"];
  write("hf/model.safetensors", weights);
  EXPECT_NE(open_error(spec).find("does not have: model.layers.1.mlp.up_proj.weight"),
            std::string::npos);

  weights = whole;
  weights["model.norm.weight"].shape = {2, 2};
  write("hf/model.safetensors", weights);
  EXPECT_NE(open_error(spec).find("shape [2, 2], config.json asks for [4]"), std::string::npos);

  weights = whole;
  weights["model.norm.weight"].dtype = Dtype::i32;
  write("hf/model.safetensors", weights);
  EXPECT_NE(open_error(spec).find("dtype I32"), std::string::npos);
}

}  // namespace
}  // namespace muster
