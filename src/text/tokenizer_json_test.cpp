#include "text/tokenizer_json.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "sys/sim_files.h"
#include "text/bpe_trainer.h"
#include "text/byte_alphabet.h"
#include "text/reference_test_support.h"

namespace muster {
namespace {

using Json = nlohmann::json;

Tokenizer small(SplitPattern pattern) {
  const std::string_view texts[] = {
      "the other than that, then there \"quoted\" \\ back \n 漢字漢字 é"};
  auto made =
      train_bpe(texts, {.vocabulary_size = 300, .specials = code_specials(), .pattern = pattern});
  EXPECT_TRUE(made.ok());
  return *std::move(made);
}

Json small_json() {
  return Json::parse(tokenizer_to_json(small(SplitPattern::cl100k)));
}

TEST(TokenizerJson, WrittenAndReadBackIsTheSameTokenizer) {
  for (const SplitPattern pattern :
       {SplitPattern::none, SplitPattern::gpt2, SplitPattern::cl100k, SplitPattern::qwen2}) {
    TokenizerParts parts = small(pattern).parts();
    const auto tokenizer_size = static_cast<uint32_t>(parts.vocabulary.size());
    parts.ignore_merges = pattern == SplitPattern::cl100k;
    parts.add_prefix_space = pattern == SplitPattern::gpt2;
    parts.added.push_back({.content = "<\"x\\\n>",
                           .id = tokenizer_size,
                           .single_word = true,
                           .lstrip = true,
                           .rstrip = true,
                           .normalized = true});
    const auto tokenizer = Tokenizer::make(parts);
    ASSERT_TRUE(tokenizer.ok());
    const auto back = tokenizer_from_json(tokenizer_to_json(*tokenizer));
    ASSERT_TRUE(back.ok()) << back.error().to_string();
    EXPECT_EQ(back->fingerprint(), tokenizer->fingerprint());
    EXPECT_EQ(tokenizer_to_json(*back), tokenizer_to_json(*tokenizer));
  }
}

TEST(TokenizerJson, MergesAsStringsAndAsPairsAreTheSame) {
  Json root = small_json();
  const auto pairs = tokenizer_from_json(root.dump());
  for (Json& merge : root["model"]["merges"])
    merge = merge[0].get<std::string>() + " " + merge[1].get<std::string>();
  const auto strings = tokenizer_from_json(root.dump());
  ASSERT_TRUE(pairs.ok() && strings.ok());
  EXPECT_EQ(pairs->fingerprint(), strings->fingerprint());
}

TEST(TokenizerJson, FilesAreWrittenWholeAndReadBack) {
  SimClock clock;
  SimFiles files(clock);
  const Tokenizer tokenizer = small(SplitPattern::gpt2);
  ASSERT_TRUE(write_tokenizer(files, "tokenizer.json", tokenizer).ok());
  const auto back = read_tokenizer(files, "tokenizer.json");
  ASSERT_TRUE(back.ok());
  EXPECT_EQ(back->fingerprint(), tokenizer.fingerprint());
  const auto missing = read_tokenizer(files, "none.json");
  ASSERT_FALSE(missing.ok());
  EXPECT_EQ(missing.error().code(), Code::not_found);
  EXPECT_NE(missing.error().to_string().find("none.json"), std::string::npos);
}

TEST(TokenizerJson, WhatIsNotSupportedIsRefusedByName) {
  const struct {
    const char* path;
    const char* value;
    const char* words;
  } cases[] = {
      {"/normalizer", R"({"type":"NFC"})", "NFC"},
      {"/normalizer", R"({"type":"Sequence","normalizers":[{"type":"Lowercase"}]})", "Lowercase"},
      {"/pre_tokenizer", "null", "ByteLevel"},
      {"/pre_tokenizer", R"({"type":"Metaspace"})", "Metaspace"},
      {"/pre_tokenizer/pretokenizers/0/pattern", R"({"Regex":"x+"})", "x+"},
      {"/pre_tokenizer/pretokenizers/0/pattern", R"({"String":" "})", "String"},
      {"/pre_tokenizer/pretokenizers/0/behavior", R"("Removed")", "Isolated"},
      {"/pre_tokenizer/pretokenizers/0/invert", "true", "inverted"},
      {"/pre_tokenizer/pretokenizers/1/use_regex", "true", "use_regex"},
      {"/pre_tokenizer/pretokenizers/1/add_prefix_space", "true", "add_prefix_space"},
      {"/model/type", R"("Unigram")", "Unigram"},
      {"/model/dropout", "0.1", "dropout"},
      {"/model/continuing_subword_prefix", R"("##")", "continuing_subword_prefix"},
      {"/model/end_of_word_suffix", R"("</w>")", "end_of_word_suffix"},
  };
  for (const auto& c : cases) {
    SCOPED_TRACE(std::string(c.path) + " = " + c.value);
    Json root = small_json();
    root[Json::json_pointer(c.path)] = Json::parse(c.value);
    const auto read = tokenizer_from_json(root.dump());
    ASSERT_FALSE(read.ok());
    EXPECT_EQ(read.error().code(), Code::unsupported);
    EXPECT_NE(read.error().to_string().find(c.words), std::string::npos)
        << read.error().to_string();
  }
}

TEST(TokenizerJson, HostileFilesAreRefused) {
  const struct {
    const char* path;
    const char* value;
    const char* words;
  } cases[] = {
      {"/model", "null", "model"},
      {"/model", "[]", "model"},
      {"/model/vocab", "[]", "vocab"},
      {"/model/merges", "{}", "merges"},
      {"/model/merges", R"(["ab"])", "two tokens"},
      {"/model/merges", R"(["a b c"])", "two tokens"},
      {"/model/merges", R"([["a","b","c"]])", "neither"},
      {"/model/merges", R"([[1,2]])", "neither"},
      {"/model/merges", R"([["a","nope"]])", "nope"},
      {"/model/merges", R"([["a","z"]])", "no token"},
      {"/model/vocab/!", "-1", "id of token"},
      {"/model/vocab/!", "1.5", "id of token"},
      {"/model/vocab/!", "16777216", "id of token"},
      {"/model/vocab/!", "18446744073709551615", "id of token"},
      {"/model/vocab/!", "\"x\"", "id of token"},
      {"/model/vocab/!", "7", "id 7"},
      {"/added_tokens", "{}", "added_tokens"},
      {"/added_tokens", R"([{"id":0}])", "content"},
      {"/added_tokens", R"([{"content":"<x>"}])", "<x>"},
      {"/added_tokens", R"([{"content":"<x>","id":400}])", "next free"},
      {"/added_tokens", R"([{"content":"a","id":0}])", "'a'"},
      {"/added_tokens", R"([{"content":"","id":300}])", "content"},
      {"/post_processor", R"({"type":"TemplateProcessing","single":3})", "single"},
      {"/post_processor", R"({"type":"TemplateProcessing","single":[{"SpecialToken":{"id":"q"}}]})",
       "'q'"},
  };
  for (const auto& c : cases) {
    SCOPED_TRACE(std::string(c.path) + " = " + c.value);
    Json root = small_json();
    root[Json::json_pointer(c.path)] = Json::parse(c.value);
    const auto read = tokenizer_from_json(root.dump());
    ASSERT_FALSE(read.ok());
    EXPECT_NE(read.error().to_string().find(c.words), std::string::npos)
        << read.error().to_string();
  }
  for (const char* text : {"", "{", "[]", "null", "3", "{\"model\":", "\xff", "{\"model\":{}} x",
                           "{\"model\": 1e999}"})
    EXPECT_FALSE(tokenizer_from_json(text).ok()) << text;
  EXPECT_FALSE(tokenizer_from_json(std::string(200000, '[')).ok());
  EXPECT_FALSE(tokenizer_from_json("{\"normalizer\":" + std::string(100000, '[')).ok());
}

TEST(TokenizerJson, APostProcessorOfAnotherKindIsKeptAndRefusedOnUse) {
  Json root = small_json();
  root["post_processor"] = Json::parse(R"({"type":"BertProcessing","sep":["a",1],"cls":["b",2]})");
  const auto read = tokenizer_from_json(root.dump());
  ASSERT_TRUE(read.ok());
  const auto around = read->with_special_tokens({1, 2});
  ASSERT_FALSE(around.ok());
  EXPECT_EQ(around.error().code(), Code::unsupported);
  EXPECT_EQ(Json::parse(tokenizer_to_json(*read))["post_processor"], root["post_processor"]);
}

// Mutations with a fixed seed: whatever the file says, reading ends with a tokenizer that encodes
// and decodes, or with an error.
TEST(TokenizerJson, MutatedFilesNeverCrash) {
  const std::string good = tokenizer_to_json(small(SplitPattern::gpt2));
  std::mt19937 random(12);
  size_t accepted = 0;
  for (int i = 0; i < 1500; ++i) {
    std::string bad = good;
    for (size_t k = 1 + random() % 3; k > 0; --k) {
      const size_t at = random() % bad.size();
      switch (random() % 4) {
        case 0:
          bad[at] = static_cast<char>(random());
          break;
        case 1:
          bad.erase(at, 1 + random() % 30);
          break;
        case 2:
          bad.insert(at, bad.substr(random() % bad.size(), 1 + random() % 30));
          break;
        default:
          bad[at] = "0123456789{}[]\",:ab"[random() % 19];
          break;
      }
    }
    const auto read = tokenizer_from_json(bad);
    if (!read) continue;
    ++accepted;
    const auto ids = read->encode("the other <|endoftext|> 漢字");
    ASSERT_TRUE(read->decode(ids).ok());
  }
  EXPECT_GT(accepted, 0u);
}

}  // namespace
}  // namespace muster
