#include "text/utf8.h"

#include <gtest/gtest.h>

#include <random>

#include "text/byte_alphabet.h"
#include "text/unicode_class.h"
#include "text/word_char.h"

namespace muster {
namespace {

TEST(Utf8, InvalidPartsBecomeReplacementCharacters) {
  const std::string r = "\xEF\xBF\xBD";
  const struct {
    const char* rule;
    std::string text, want;
    size_t replaced;
  } cases[] = {
      {"valid text is unchanged", "aé漢😀", "aé漢😀", 0},
      {"a lone continuation", "a\x80z", "a" + r + "z", 1},
      {"an overlong lead is one, its continuation another", "\xC0\xAF", r + r, 2},
      {"a truncated sequence is one", "\xE2\x82", r, 1},
      {"also before other text", "\xF0\x9F\x98x", r + "x", 1},
      {"a surrogate is three", "\xED\xA0\x80", r + r + r, 3},
      {"beyond U+10FFFF is four", "\xF4\x90\x80\x80", r + r + r + r, 4},
      {"overlong three bytes", "\xE0\x80\x80", r + r + r, 3},
      {"bytes never used", "\xFE\xFF", r + r, 2},
  };
  for (const auto& c : cases) {
    SCOPED_TRACE(c.rule);
    size_t replaced = 0;
    EXPECT_EQ(replace_invalid_utf8(c.text, replaced), c.want);
    EXPECT_EQ(replaced, c.replaced);
    EXPECT_EQ(valid_utf8_prefix(c.text) == c.text.size(), c.replaced == 0);
  }
}

TEST(Utf8, EveryCodePointSurvivesAndNoOtherFourBytesDo) {
  for (uint32_t c = 0; c < 0x110000; ++c) {
    if (c >= 0xD800 && c < 0xE000) continue;
    std::string text;
    append_utf8(text, c);
    ASSERT_EQ(valid_utf8_prefix(text), text.size()) << c;
    const Utf8Char back = decode_utf8(reinterpret_cast<const uint8_t*>(text.data()));
    ASSERT_EQ(back.code_point, c);
    ASSERT_EQ(back.length, text.size());
    for (size_t cut = 1; cut < text.size(); ++cut)
      ASSERT_EQ(incomplete_utf8_suffix("ab" + text.substr(0, cut)), cut);
    ASSERT_EQ(incomplete_utf8_suffix(text), 0u);
  }
}

// Validity at every offset and in every neighbourhood, so that block-wise validation has no seams.
TEST(Utf8, OneBadByteIsFoundWhereverItIs) {
  std::mt19937 random(4);
  const std::string filler[] = {"a", "é", "漢", "😀", "a漢"};
  for (const std::string& unit : filler) {
    std::string text;
    while (text.size() < 200) text += unit;
    ASSERT_EQ(valid_utf8_prefix(text), text.size());
    for (size_t at = 0; at < text.size(); ++at) {
      std::string bad = text;
      bad[at] = '\xFF';
      size_t start = at;  // of the character that the bad byte is in
      while ((static_cast<uint8_t>(text[start]) & 0xC0) == 0x80) --start;
      ASSERT_EQ(valid_utf8_prefix(bad), start);
      ASSERT_EQ(valid_utf8_prefix(text.substr(0, at)), start);
    }
  }
}

TEST(UnicodeClass, KnownCharacters) {
  const struct {
    uint32_t c;
    CharClass want;
  } cases[] = {
      {'a', CharClass::letter},    {'5', CharClass::number},    {' ', CharClass::space},
      {'_', CharClass::other},     {0xA0, CharClass::space},    {0x3000, CharClass::space},
      {0x85, CharClass::space},    {0x200B, CharClass::other},  {0x200D, CharClass::other},
      {0x4E00, CharClass::letter}, {0x00BD, CharClass::number}, {0x2167, CharClass::number},
      {0x0301, CharClass::other},  {0x1F600, CharClass::other}, {0x10FFFF, CharClass::other},
      {0x1C89, CharClass::letter},  // new in Unicode 16
      {0x0E31, CharClass::other}};
  for (const auto& c : cases) EXPECT_EQ(char_class(c.c), c.want) << std::hex << c.c;
  EXPECT_TRUE(is_word_char('_') && is_word_char(0x0301) && is_word_char(0x200D) &&
              is_word_char('9'));
  EXPECT_FALSE(is_word_char('-') || is_word_char(' ') || is_word_char(0x10FFFF));
}

TEST(ByteAlphabet, EveryByteHasItsCharacter) {
  EXPECT_EQ(to_alphabet(" a\n\xff"), "ĠaĊÿ");
  std::string all;
  for (int b = 0; b < 256; ++b) all.push_back(static_cast<char>(b));
  EXPECT_EQ(from_alphabet(to_alphabet(all)), all);
  EXPECT_EQ(from_alphabet(" "), std::nullopt);
  EXPECT_EQ(from_alphabet("\u3042"), std::nullopt);
  EXPECT_EQ(from_alphabet("\xff"), std::nullopt);
}

}  // namespace
}  // namespace muster
