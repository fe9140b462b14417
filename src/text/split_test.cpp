#include "text/split.h"

#include <gtest/gtest.h>

#include "text/cpu_level.h"
#include "text/reference_test_support.h"
#include "text/utf8.h"

namespace muster {
namespace {

std::vector<std::string> pieces(SplitPattern pattern, const std::string& text) {
  std::vector<std::string> found;
  for (size_t at = 0; at < text.size();) {
    const size_t end = next_piece(pattern, text, at);
    found.push_back(text.substr(at, end - at));
    at = end;
  }
  return found;
}

using Pieces = std::vector<std::string>;

TEST(Split, Gpt2CutsByItsPattern) {
  const struct {
    const char *text, *rule;
    Pieces want;
  } cases[] = {
      {"Hello world", "a space belongs to the word after it", {"Hello", " world"}},
      {"a  b", "of more spaces the last one does", {"a", " ", " b"}},
      {"a \n b", "only a space does", {"a", " \n", " b"}},
      {"a\n\tb", "the last of other whitespace is a piece", {"a", "\n", "\t", "b"}},
      {"a  ", "whitespace at the end is one piece", {"a", "  "}},
      {"I'm we'll", "lower-case contractions are cut off", {"I", "'m", " we", "'ll"}},
      {"I'M", "upper-case ones are not", {"I", "'", "M"}},
      {" 's", "a space before it makes it punctuation", {" '", "s"}},
      {"x123456 7", "numbers of any length", {"x", "123456", " 7"}},
      {"a!?\n", "punctuation takes no newline", {"a", "!?", "\n"}},
      {"日本 語", "letters are letters", {"日本", " 語"}},
      {"½a", "number and letter", {"½", "a"}},
  };
  for (const auto& c : cases) EXPECT_EQ(pieces(SplitPattern::gpt2, c.text), c.want) << c.rule;
}

TEST(Split, Cl100kCutsByItsPattern) {
  const struct {
    const char *text, *rule;
    Pieces want;
  } cases[] = {
      {"1234567", "numbers by three", {"123", "456", "7"}},
      {"x 12", "a space does not join a number", {"x", " ", "12"}},
      {"(abc \tdef", "any one character may lead a word", {"(abc", " ", "\tdef"}},
      {"\nabc", "but not a newline", {"\n", "abc"}},
      {"I'M 'LLx", "contractions in any case", {"I", "'M", " '", "LLx"}},
      {"'\u017fx", "U+017F is an s without case", {"'\u017f", "x"}},
      {"!!\r\n\n x", "punctuation takes newlines along", {"!!\r\n\n", " x"}},
      {"  \n \n  x", "whitespace up to its last newline", {"  \n \n", " ", " x"}},
      {"a \u00a0b", "a no-break space leads a word", {"a", " ", "\u00a0b"}},
      {"!!a", "two leaders do not", {"!!", "a"}},
      {" !a", "", {" !", "a"}},
      {"'", "", {"'"}},
      {"'r", "", {"'r"}},
  };
  for (const auto& c : cases) EXPECT_EQ(pieces(SplitPattern::cl100k, c.text), c.want) << c.rule;
  EXPECT_EQ(pieces(SplitPattern::qwen2, "123a"), (Pieces{"1", "2", "3", "a"}));
  EXPECT_EQ(pieces(SplitPattern::none, "a b\n"), (Pieces{"a b\n"}));
}

TEST(Split, PatternsAreRecognisedByTheirExactExpression) {
  for (const SplitPattern p : {SplitPattern::gpt2, SplitPattern::cl100k, SplitPattern::qwen2})
    EXPECT_EQ(split_pattern_of_regex(split_pattern_regex(p)), p);
  EXPECT_EQ(split_pattern_of_regex(R"(\s+)"), std::nullopt);
  EXPECT_EQ(split_pattern_of_regex(""), std::nullopt);
  EXPECT_EQ(split_pattern_of_regex(std::string(split_pattern_regex(SplitPattern::gpt2)) + " "),
            std::nullopt);
}

// The batch scanners give the same ends at every instruction level, start and capacity.
TEST(Split, EveryLevelCutsAlike) {
  std::vector<std::string> texts = test::hard_texts();
  std::mt19937 random(1);
  for (int i = 0; i < 3000; ++i) texts.push_back(test::random_text(random, 1 + random() % 300));
  // ASCII only, so that whole windows are cut at once.
  for (int i = 0; i < 4000; ++i) {
    static constexpr char kAscii[] = "abcrestlvmdSTLVE      \n\n\r\t\v''''!!.(_0123456789\x7f";
    std::string text;
    for (size_t n = 60 + random() % 300; n > 0; --n) text += kAscii[random() % (sizeof kAscii - 1)];
    if (i % 3 == 0) text.insert(random() % text.size(), "漢");
    texts.push_back(text);
  }
  std::vector<CpuLevel> levels = {CpuLevel::scalar};
  if (best_cpu_level() >= CpuLevel::avx2) levels.push_back(CpuLevel::avx2);
  if (best_cpu_level() >= CpuLevel::avx512) levels.push_back(CpuLevel::avx512);
  for (const std::string& text : texts) {
    size_t replaced = 0;
    const std::string valid = replace_invalid_utf8(text, replaced);
    for (const SplitPattern pattern :
         {SplitPattern::gpt2, SplitPattern::cl100k, SplitPattern::qwen2, SplitPattern::none}) {
      std::vector<size_t> want;
      for (size_t at = 0; at < valid.size();) want.push_back(at = next_piece(pattern, valid, at));
      for (const CpuLevel level : levels) {
        for (const size_t capacity : {size_t{1}, size_t{3}, size_t{256}}) {
          std::vector<size_t> got, ends(capacity);
          for (size_t at = 0; at < valid.size(); at = got.back()) {
            const size_t n = next_pieces(pattern, valid, at, ends.data(), capacity, level);
            ASSERT_GE(n, 1u);
            got.insert(got.end(), ends.begin(), ends.begin() + static_cast<ptrdiff_t>(n));
          }
          ASSERT_EQ(got, want) << split_pattern_name(pattern) << " level "
                               << static_cast<int>(level) << " capacity " << capacity << " text "
                               << valid;
        }
      }
    }
  }
}

}  // namespace
}  // namespace muster
