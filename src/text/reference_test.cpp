// Differential tests: the same ids, texts and vocabularies as the reference implementation.
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <unordered_map>

#include "text/bpe_trainer.h"
#include "text/reference_test_support.h"
#include "text/tokenizer.h"
#include "text/tokenizer_json.h"
#include "text/unicode_class.h"

namespace muster {
namespace {

using test::Ids;
using test::Reference;

#define SKIP_WITHOUT_REFERENCE(reference) \
  if (const std::string why = (reference).missing(); !why.empty()) GTEST_SKIP() << why

// Code-like text from which a vocabulary of some hundred tokens can be learnt.
std::vector<std::string> training_texts() {
  std::mt19937 random(7);
  const std::vector<std::string> words = {
      "def",       "return", "self",   "class",  "import",   "for", "in",     "if",         "else",
      "None",      "True",   "lambda", "value",  "index",    "the", "of",     "and",        "token",
      "tokenizer", "encode", "decode", "日本語", "テキスト", "を",  "处理",   "中文",       "don't",
      "it's",      "naïve",  "größe",  "данные", "  ",       "\n",  "\n    ", "\n        ", "(",
      ")",         ":",      " = ",    "_",      "0",        "1",   "42",     "123456",     "# ",
      "\"\"\"",    "...",    "====",   "😀"};
  std::vector<std::string> texts;
  for (int t = 0; t < 40; ++t) {
    std::string text;
    for (int i = 0; i < 400; ++i) {
      // Squared, so that some words are much more frequent than others.
      const double u = static_cast<double>(random() % 10000) / 10000;
      text += words[static_cast<size_t>(u * u * static_cast<double>(words.size()))];
      if (random() % 2 == 0) text += ' ';
    }
    texts.push_back(text);
  }
  return texts;
}

Tokenizer trained(uint32_t size, SplitPattern pattern, std::vector<std::string> specials) {
  const std::vector<std::string> texts = training_texts();
  const std::vector<std::string_view> views(texts.begin(), texts.end());
  auto made = train_bpe(
      views, {.vocabulary_size = size, .specials = std::move(specials), .pattern = pattern});
  EXPECT_TRUE(made.ok()) << made.error().to_string();
  return *std::move(made);
}

std::vector<std::string> texts_to_encode() {
  std::vector<std::string> texts = test::hard_texts();
  for (std::string& text : training_texts()) texts.push_back(std::move(text));
  std::mt19937 random(11);
  for (int i = 0; i < 600; ++i) texts.push_back(test::random_text(random, 1 + random() % 80));
  // Lengths where 16-bit counts would wrap; merging must stay n log n.
  for (const size_t length : {65535u, 65536u}) {
    texts.push_back(std::string(length, 'e'));
    texts.push_back(test::random_text(random, length / 2));
  }
  return texts;
}

void expect_same_ids(const Reference& reference, const std::string& json,
                     const Tokenizer& tokenizer, const std::vector<std::string>& texts,
                     SpecialText special) {
  const bool recognise = special == SpecialText::recognise;
  const std::vector<Ids> expected = reference.encode(json, texts, recognise ? "recognise" : "");
  ASSERT_EQ(expected.size(), texts.size());
  Encoder encoder(tokenizer);
  for (size_t i = 0; i < texts.size(); ++i) {
    Ids ids;
    encoder.encode(texts[i], ids, special);
    ASSERT_EQ(ids, expected[i]) << "text " << i << ": " << texts[i].substr(0, 200);
    if (i % 7 == 0) {
      ASSERT_EQ(tokenizer.encode(texts[i], special), ids);
    }
  }
}

TEST(Reference, UnicodeClassesOfAllCodePoints) {
  Reference reference;
  SKIP_WITHOUT_REFERENCE(reference);
  ASSERT_TRUE(reference.call("classes " + reference.path("classes")));
  const std::string table = test::read_bytes(reference.path("classes"));
  ASSERT_EQ(table.size(), 0x110000u);
  for (uint32_t c = 0; c < 0x110000; ++c)
    if (c < 0xD800 || c >= 0xE000) {
      ASSERT_EQ(static_cast<int>(char_class(c)), table[c]) << "U+" << std::hex << c;
    }
}

TEST(Reference, TrainingMakesTheSameVocabularyAndMerges) {
  Reference reference;
  SKIP_WITHOUT_REFERENCE(reference);
  std::vector<std::string> texts = training_texts();
  texts.push_back("aaaaaaa aaaa aaa abababab bababa aabbaabb");
  test::write_records(reference.path("texts"), texts);
  // 1,200 uses up nearly all pairs, so ties of rare ones are decided too.
  for (const char* size : {"300", "700", "1200"}) {
    ASSERT_TRUE(reference.call("train " + reference.path("texts") + " " + size + " " +
                               reference.path("trained.json") + " '<|endoftext|>' '<fim_prefix>'"));
    const auto expected = nlohmann::json::parse(test::read_bytes(reference.path("trained.json")));
    const std::vector<std::string_view> views(texts.begin(), texts.end());
    for (const int threads : {1, 3}) {
      const auto ours = train_bpe(views, {.vocabulary_size = static_cast<uint32_t>(std::atoi(size)),
                                          .specials = {"<|endoftext|>", "<fim_prefix>"},
                                          .threads = threads});
      ASSERT_TRUE(ours.ok());
      const auto made = nlohmann::json::parse(tokenizer_to_json(*ours));
      EXPECT_EQ(made["model"]["merges"], expected["model"]["merges"]);
      EXPECT_EQ(made["model"]["vocab"], expected["model"]["vocab"]);
      EXPECT_EQ(made["added_tokens"], expected["added_tokens"]);
    }
  }
}

TEST(Reference, EncodesHardTextsWithEveryPattern) {
  Reference reference;
  SKIP_WITHOUT_REFERENCE(reference);
  const std::vector<std::string> texts = texts_to_encode();
  for (const SplitPattern pattern :
       {SplitPattern::gpt2, SplitPattern::cl100k, SplitPattern::qwen2, SplitPattern::none}) {
    SCOPED_TRACE(split_pattern_name(pattern));
    const Tokenizer tokenizer = trained(900, pattern, code_specials());
    const std::string json = tokenizer_to_json(tokenizer);
    expect_same_ids(reference, json, tokenizer, texts, SpecialText::as_text);
  }
}

TEST(Reference, RecognisesSpecialTokensWhenAsked) {
  Reference reference;
  SKIP_WITHOUT_REFERENCE(reference);
  std::vector<std::string> texts = test::hard_texts();
  std::mt19937 random(3);
  const std::vector<std::string> parts = {"<|endoftext|>",
                                          "<fim_prefix>",
                                          "<fim_pad>",
                                          "<tag>",
                                          "word",
                                          "<",
                                          " ",
                                          "\n",
                                          "x",
                                          "\u3000",
                                          "é",
                                          "_",
                                          "<|end",
                                          "tag",
                                          "  ",
                                          "<tag>>"};
  for (int i = 0; i < 400; ++i) {
    std::string text;
    for (size_t k = random() % 12; k > 0; --k) text += parts[random() % parts.size()];
    texts.push_back(text);
  }
  TokenizerParts with_more = trained(600, SplitPattern::gpt2, code_specials()).parts();
  uint32_t id = static_cast<uint32_t>(with_more.vocabulary.size());
  with_more.added.push_back({.content = "<tag>", .id = id++, .lstrip = true, .normalized = true});
  with_more.added.push_back({.content = "<tag>>", .id = id++, .rstrip = true});
  with_more.added.push_back(
      {.content = "tag", .id = id++, .single_word = true, .normalized = true});
  with_more.added.push_back(
      {.content = "word", .id = id++, .special = true, .single_word = true, .rstrip = true});
  const auto tokenizer = Tokenizer::make(with_more);
  ASSERT_TRUE(tokenizer.ok());
  const std::string json = tokenizer_to_json(*tokenizer);
  expect_same_ids(reference, json, *tokenizer, texts, SpecialText::recognise);
  expect_same_ids(reference, json, *tokenizer, texts, SpecialText::as_text);
}

TEST(Reference, SharedTokenizerWithoutMergesAndWithMissingBytes) {
  Reference reference;
  SKIP_WITHOUT_REFERENCE(reference);
  const std::string path = test::shared_folder() + "/data/torchtitan/tokenizer/tokenizer.json";
  const std::string json = test::read_bytes(path);
  if (json.empty()) GTEST_SKIP() << "no " << path;
  const auto tokenizer = tokenizer_from_json(json);
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.error().to_string();
  EXPECT_EQ(tokenizer->vocabulary_size(), 2020u);
  expect_same_ids(reference, json, *tokenizer, texts_to_encode(), SpecialText::as_text);
  expect_same_ids(reference, tokenizer_to_json(*tokenizer), *tokenizer, texts_to_encode(),
                  SpecialText::recognise);
}

// Every way to split a token is a merge, some rank before their own parts' merges, some tokens
// cannot be reached: the shapes that converted vocabularies have.
TEST(Reference, ScrambledMergesAndIgnoreMerges) {
  Reference reference;
  SKIP_WITHOUT_REFERENCE(reference);
  const std::vector<std::string> texts = texts_to_encode();
  for (const bool shuffle : {false, true}) {
    for (const bool ignore_merges : {false, true}) {
      SCOPED_TRACE(testing::Message() << "shuffle " << shuffle << " ignore " << ignore_merges);
      TokenizerParts parts = trained(800, SplitPattern::cl100k, {}).parts();
      parts.ignore_merges = ignore_merges;
      std::unordered_map<std::string, uint32_t> ids;
      for (const auto& entry : parts.vocabulary) ids[entry.text] = entry.id;
      std::vector<std::pair<uint32_t, uint32_t>> merges;
      for (const auto& entry : parts.vocabulary)
        for (size_t cut = 1; cut < entry.text.size(); ++cut) {
          const auto left = ids.find(entry.text.substr(0, cut));
          const auto right = ids.find(entry.text.substr(cut));
          if (left != ids.end() && right != ids.end())
            merges.emplace_back(left->second, right->second);
        }
      std::mt19937 random(5);
      if (shuffle) std::shuffle(merges.begin(), merges.end(), random);
      parts.merges = merges;
      uint32_t id = static_cast<uint32_t>(parts.vocabulary.size());
      for (const char* unreachable : {"qzqz", "ĠĠĠĠqq", "æĹ¥æľ", "zzzzzzzzzzzzzzzzzzzzz"})
        parts.vocabulary.push_back({unreachable, id++});
      const auto tokenizer = Tokenizer::make(parts);
      ASSERT_TRUE(tokenizer.ok()) << tokenizer.error().to_string();
      std::vector<std::string> more = texts;
      more.insert(more.end(), {"qzqz", " qzqz", "    qq", "zzzzzzzzzzzzzzzzzzzzz"});
      expect_same_ids(reference, tokenizer_to_json(*tokenizer), *tokenizer, more,
                      SpecialText::as_text);
    }
  }
}

TEST(Reference, DecodesWholeAndBrokenSequences) {
  Reference reference;
  SKIP_WITHOUT_REFERENCE(reference);
  const Tokenizer tokenizer = trained(700, SplitPattern::gpt2, code_specials());
  std::mt19937 random(17);
  std::vector<std::string> records;
  std::vector<Ids> lists;
  for (int i = 0; i < 300; ++i) {
    Ids ids(random() % 20);
    for (uint32_t& id : ids) id = random() % (i % 2 == 0 ? 270 : tokenizer.vocabulary_size());
    records.emplace_back(reinterpret_cast<const char*>(ids.data()), ids.size() * 4);
    lists.push_back(ids);
  }
  test::write_bytes(reference.path("t.json"), tokenizer_to_json(tokenizer));
  test::write_records(reference.path("lists"), records);
  ASSERT_TRUE(reference.call("decode " + reference.path("t.json") + " " + reference.path("lists") +
                             " " + reference.path("texts")));
  const std::vector<std::string> expected = test::read_records(reference.path("texts"));
  ASSERT_EQ(expected.size(), lists.size());
  for (size_t i = 0; i < lists.size(); ++i) {
    EXPECT_EQ(*tokenizer.decode(lists[i]), expected[i]) << i;
    StreamDecoder stream(tokenizer, false);
    std::string streamed;
    for (const uint32_t id : lists[i]) streamed += *stream.next(id);
    EXPECT_EQ(streamed + stream.finish(), expected[i]) << i;
  }
}

TEST(Reference, PostProcessorTokens) {
  Reference reference;
  SKIP_WITHOUT_REFERENCE(reference);
  TokenizerParts parts = trained(500, SplitPattern::cl100k, {"<s>", "</s>"}).parts();
  const std::string json = tokenizer_to_json(*Tokenizer::make(parts));
  auto root = nlohmann::json::parse(json);
  root["post_processor"] = nlohmann::json::parse(R"({"type":"Sequence","processors":[
    {"type":"ByteLevel","add_prefix_space":true,"trim_offsets":false,"use_regex":true},
    {"type":"TemplateProcessing","single":[{"SpecialToken":{"id":"<s>","type_id":0}},
      {"Sequence":{"id":"A","type_id":0}},{"SpecialToken":{"id":"</s>","type_id":0}}],
     "pair":[{"Sequence":{"id":"A","type_id":0}},{"Sequence":{"id":"B","type_id":1}}],
     "special_tokens":{"<s>":{"id":"<s>","ids":[0],"tokens":["<s>"]},
       "</s>":{"id":"</s>","ids":[1],"tokens":["</s>"]}}}]})");
  const auto tokenizer = tokenizer_from_json(root.dump());
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.error().to_string();
  const std::vector<std::string> texts = {"", "def f(x): return x"};
  const std::vector<Ids> expected =
      reference.encode(tokenizer_to_json(*tokenizer), texts, "around");
  for (size_t i = 0; i < texts.size(); ++i)
    EXPECT_EQ(*tokenizer->with_special_tokens(tokenizer->encode(texts[i])), expected[i]);
}

}  // namespace
}  // namespace muster
