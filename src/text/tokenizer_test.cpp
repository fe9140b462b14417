#include "text/tokenizer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <thread>

#include "text/bpe_trainer.h"
#include "text/byte_alphabet.h"
#include "text/reference_test_support.h"
#include "text/tokenizer_json.h"

namespace muster {
namespace {

using Ids = std::vector<uint32_t>;

// Bytes at ids 0-255, then th, the, _the (with its space), and two added tokens.
TokenizerParts small_parts() {
  TokenizerParts parts;
  for (uint32_t b = 0; b < 256; ++b)
    parts.vocabulary.push_back({to_alphabet(std::string(1, static_cast<char>(b))), b});
  parts.vocabulary.push_back({"th", 256});
  parts.vocabulary.push_back({"the", 257});
  parts.vocabulary.push_back({"Ġthe", 258});
  parts.merges = {{'t', 'h'}, {256, 'e'}, {' ', 257}};
  parts.added.push_back({.content = "<|end|>", .id = 259, .special = true});
  parts.added.push_back({.content = "<tool>", .id = 260});
  return parts;
}

TEST(Tokenizer, EncodesAndDecodesSmallTexts) {
  const auto tokenizer = Tokenizer::make(small_parts());
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.error().to_string();
  const struct {
    std::string text;
    SpecialText special;
    Ids want;
  } cases[] = {
      {"", SpecialText::as_text, {}},
      {"the the", SpecialText::as_text, {257, 258}},
      {"thx", SpecialText::as_text, {256, 'x'}},
      {"the<|end|>", SpecialText::recognise, {257, 259}},
      {"<|end|>", SpecialText::as_text, {'<', '|', 'e', 'n', 'd', '|', '>'}},
      {"<tool>the", SpecialText::as_text, {260, 257}},
      {"é", SpecialText::as_text, {0xC3, 0xA9}},
      {"\xff", SpecialText::as_text, {0xEF, 0xBF, 0xBD}},
  };
  for (const auto& c : cases) {
    EXPECT_EQ(tokenizer->encode(c.text, c.special), c.want) << c.text;
    if (c.text != "\xff") {
      EXPECT_EQ(*tokenizer->decode(c.want), c.text);
    }
  }
  EXPECT_EQ(tokenizer->vocabulary_size(), 261u);
  EXPECT_EQ(tokenizer->special_id("<|end|>"), 259u);
  EXPECT_EQ(tokenizer->special_id("the"), std::nullopt);
  EXPECT_EQ(tokenizer->token_bytes(258), " the");
  EXPECT_EQ(tokenizer->token_bytes(999), std::nullopt);
}

TEST(Tokenizer, CountsReplacedSequences) {
  const auto tokenizer = Tokenizer::make(small_parts());
  Encoder encoder(*tokenizer);
  Ids ids;
  encoder.encode("ok\xff\xfe", ids);
  encoder.encode("\xe2\x82", ids);
  EXPECT_EQ(encoder.replaced(), 3u);
}

TEST(Tokenizer, DecodingSkipsSpecialsOnRequestAndRefusesUnknownIds) {
  const auto tokenizer = Tokenizer::make(small_parts());
  const Ids ids = {257, 259, 260};
  EXPECT_EQ(*tokenizer->decode(ids, false), "the<|end|><tool>");
  EXPECT_EQ(*tokenizer->decode(ids, true), "the<tool>");
  const Ids unknown = {257, 261};
  const auto wrong = tokenizer->decode(unknown);
  ASSERT_FALSE(wrong.ok());
  EXPECT_EQ(wrong.error().code(), Code::invalid_argument);
}

TEST(Tokenizer, StreamHoldsUnfinishedCharactersBack) {
  const auto tokenizer = Tokenizer::make(small_parts());
  StreamDecoder stream(*tokenizer, false);
  EXPECT_EQ(*stream.next(0xE6), "");
  EXPECT_EQ(*stream.next(0xBC), "");
  EXPECT_EQ(*stream.next(0xA2), "漢");
  EXPECT_EQ(*stream.next(0xC3), "");
  EXPECT_EQ(*stream.next('x'), "\xEF\xBF\xBDx");
  EXPECT_EQ(*stream.next(0xF0), "");
  EXPECT_EQ(stream.finish(), "\xEF\xBF\xBD");
}

TEST(Tokenizer, BytesWithoutMerges) {
  const auto tokenizer = Tokenizer::bytes({"<|endoftext|>", "<pad>"});
  ASSERT_TRUE(tokenizer.ok());
  EXPECT_EQ(tokenizer->vocabulary_size(), 258u);
  EXPECT_EQ(tokenizer->special_id("<pad>"), 1u);
  EXPECT_EQ(tokenizer->encode("To be"), (Ids{2 + 'T', 2 + 'o', 2 + ' ', 2 + 'b', 2 + 'e'}));
  std::string all;
  for (int b = 0; b < 128; ++b) all.push_back(static_cast<char>(b));
  EXPECT_EQ(*tokenizer->decode(tokenizer->encode(all)), all);
  EXPECT_EQ(Tokenizer::bytes({})->encode("A"), (Ids{'A'}));
}

TEST(Tokenizer, ContradictionsAreRefused) {
  const struct {
    const char* rule;
    void (*change)(TokenizerParts&);
    const char* words;
  } cases[] = {
      {"an id twice", [](TokenizerParts& p) { p.vocabulary.push_back({"zz", 5}); }, "id 5"},
      {"a text twice", [](TokenizerParts& p) { p.vocabulary.push_back({"the", 300}); }, "twice"},
      {"an empty text", [](TokenizerParts& p) { p.vocabulary.push_back({"", 300}); }, "empty"},
      {"an id too large", [](TokenizerParts& p) { p.vocabulary.push_back({"zz", 1u << 24}); },
       "largest"},
      {"a merge of no token", [](TokenizerParts& p) { p.merges.emplace_back(1, 70000); }, "70000"},
      {"a merge into no token", [](TokenizerParts& p) { p.merges.emplace_back('x', 'y'); },
       "merge 3"},
      {"an added token on another id", [](TokenizerParts& p) { p.added[0].id = 5; },
       "another token"},
      {"an added token twice", [](TokenizerParts& p) { p.added[1].content = "<|end|>"; }, "twice"},
      {"an added token against the model", [](TokenizerParts& p) { p.added[1].content = "th"; },
       "256"},
      {"an empty added token", [](TokenizerParts& p) { p.added[1].content = ""; }, "empty"},
      {"an added token not UTF-8", [](TokenizerParts& p) { p.added[1].content = "\xff"; }, "UTF-8"},
  };
  for (const auto& c : cases) {
    SCOPED_TRACE(c.rule);
    TokenizerParts parts = small_parts();
    c.change(parts);
    const auto made = Tokenizer::make(parts);
    ASSERT_FALSE(made.ok());
    EXPECT_NE(made.error().to_string().find(c.words), std::string::npos)
        << made.error().to_string();
  }
}

TEST(Tokenizer, FingerprintCoversWhatDecidesIds) {
  const Hash128 base = Tokenizer::make(small_parts())->fingerprint();
  EXPECT_EQ(Tokenizer::make(small_parts())->fingerprint(), base);
  void (*const changes[])(TokenizerParts&) = {
      [](TokenizerParts& p) { p.pattern = SplitPattern::cl100k; },
      [](TokenizerParts& p) { p.ignore_merges = true; },
      [](TokenizerParts& p) { p.add_prefix_space = true; },
      [](TokenizerParts& p) { p.merges.pop_back(); },
      [](TokenizerParts& p) { p.vocabulary.push_back({"zz", 261}); },
      [](TokenizerParts& p) { p.added.pop_back(); },
      [](TokenizerParts& p) { p.added[0].special = false; },
      [](TokenizerParts& p) { p.added[0].lstrip = true; },
  };
  for (const auto change : changes) {
    TokenizerParts parts = small_parts();
    change(parts);
    EXPECT_NE(Tokenizer::make(parts)->fingerprint(), base);
  }
}

// The cache may replace, never change: an encoder that has seen much agrees with a new one.
TEST(Tokenizer, EncodersWithFullCachesAgreeWithNewOnes) {
  std::mt19937 random(2);
  std::vector<std::string> texts = test::hard_texts();
  std::string base;
  for (int i = 0; i < 400; ++i) base += test::random_text(random, 40) + " tokenize the encoder ";
  const std::string_view views[] = {base};
  const auto tokenizer =
      train_bpe(views, {.vocabulary_size = 700, .specials = {}, .pattern = SplitPattern::cl100k});
  Encoder used(*tokenizer);
  for (uint32_t i = 0; i < 300000; ++i) {
    Ids ids;
    const std::string piece = " w" + std::to_string(i * 2654435761u % 1000003) + "e";
    used.encode(piece, ids);
    if (i % 1000 == 0) {
      ASSERT_EQ(ids, tokenizer->encode(piece));
    }
  }
  for (const std::string& text : texts) {
    Ids ids;
    used.encode(text, ids);
    ASSERT_EQ(ids, tokenizer->encode(text)) << text;
  }
}

TEST(Tokenizer, ThreadsShareOneTokenizer) {
  const auto tokenizer = Tokenizer::make(small_parts());
  const std::string text = test::random_text(*std::make_unique<std::mt19937>(9), 5000);
  const Ids want = tokenizer->encode(text);
  std::vector<std::thread> threads;
  std::vector<Ids> got(4);
  for (Ids& ids : got)
    threads.emplace_back([&ids, &text, copy = *tokenizer] { Encoder(copy).encode(text, ids); });
  for (std::thread& thread : threads) thread.join();
  for (const Ids& ids : got) EXPECT_EQ(ids, want);
}

// Counted, not timed: cutting, cache and merging together.
TEST(Tokenizer, WorkIsLinearInTheText) {
  const auto tokenizer = Tokenizer::make(small_parts());
  for (const std::string unit : {"a", " ", "the", "的", "\n", "1", "thet"}) {
    uint64_t work[2];
    for (int k = 0; k < 2; ++k) {
      std::string text;
      while (text.size() < (size_t{30000} << k)) text += unit;
      Encoder encoder(*tokenizer);
      Ids ids;
      encoder.encode(text, ids);
      work[k] = encoder.operations();
      EXPECT_LE(work[k], 4 * text.size() + 100) << unit;
    }
    EXPECT_LE(static_cast<double>(work[1]), 2.2 * static_cast<double>(work[0]) + 100) << unit;
  }
}

TEST(BpeTraining, MergesTheMostFrequentPairAndBreaksTiesByIds) {
  // "ab" 3 times, "bc" 3 times: a < b, so (a, b) wins; then (ab, c) with 3.
  const std::string_view texts[] = {"abc abc abc"};
  const auto tokenizer = train_bpe(texts, {.vocabulary_size = 260, .specials = {"<e>"}});
  ASSERT_TRUE(tokenizer.ok());
  const auto& parts = tokenizer->parts();
  const auto shown = [&](uint32_t id) { return *tokenizer->token_bytes(id); };
  ASSERT_EQ(parts.merges.size(), 3u);
  EXPECT_EQ(shown(parts.merges[0].first), "a");
  EXPECT_EQ(shown(parts.merges[0].second), "b");
  EXPECT_EQ(tokenizer->token_bytes(257), "ab");
  EXPECT_EQ(tokenizer->token_bytes(258), "abc");
  EXPECT_EQ(tokenizer->token_bytes(259), " abc");
  EXPECT_EQ(tokenizer->special_id("<e>"), 0u);
}

TEST(BpeTraining, StopsWhenNoPairIsLeft) {
  const std::string_view texts[] = {"ab"};
  const auto tokenizer = train_bpe(texts, {.vocabulary_size = 4096, .specials = code_specials()});
  ASSERT_TRUE(tokenizer.ok());
  EXPECT_EQ(tokenizer->vocabulary_size(), 5u + 256 + 1);
}

TEST(Tokenizer, TextsThatAreTooLargeToEncodeAreToldApart) {
  const std::string small = "a\xff";
  EXPECT_TRUE(check_text_size(small).ok());
  // Only the size is looked at.
  const Status large = check_text_size(std::string_view(small.data(), kMaxTextBytes + 1));
  ASSERT_FALSE(large.ok());
  EXPECT_NE(large.error().message().find("4294967233 bytes; split it into parts of at most "
                                         "4294967232"),
            std::string::npos)
      << large.error().message();
}

TEST(BpeTraining, BadRequestsAreRefused) {
  const std::string_view some[] = {"text"}, none[] = {"", ""};
  EXPECT_FALSE(train_bpe({}, {.vocabulary_size = 300, .specials = {}}).ok());
  EXPECT_FALSE(train_bpe(none, {.vocabulary_size = 300, .specials = {}}).ok());
  EXPECT_FALSE(train_bpe(some, {.vocabulary_size = 255, .specials = {}}).ok());
  EXPECT_FALSE(train_bpe(some, {.vocabulary_size = 256, .specials = {"<e>"}}).ok());
  EXPECT_FALSE(train_bpe(some, {.vocabulary_size = 300, .specials = {""}}).ok());
  EXPECT_FALSE(train_bpe(some, {.vocabulary_size = 300, .specials = {"<e>", "<e>"}}).ok());
  EXPECT_FALSE(train_bpe(some, {.vocabulary_size = 300, .specials = {"a"}}).ok());
  EXPECT_TRUE(train_bpe(some, {.vocabulary_size = 257, .specials = {"<e>"}}).ok());
}

TEST(BpeTraining, ThreadsAndOrderOfTextsDoNotMatter) {
  std::mt19937 random(21);
  std::vector<std::string> texts;
  for (int i = 0; i < 60; ++i) texts.push_back(test::random_text(random, 300));
  std::vector<std::string_view> views(texts.begin(), texts.end());
  const auto train = [&](int threads) {
    return train_bpe(views, {.vocabulary_size = 600, .specials = {"<e>"}, .threads = threads})
        ->fingerprint();
  };
  const Hash128 one = train(1);
  EXPECT_EQ(train(2), one);
  EXPECT_EQ(train(7), one);
  std::reverse(views.begin(), views.end());
  EXPECT_EQ(train(3), one);
}

}  // namespace
}  // namespace muster
