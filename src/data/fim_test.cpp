#include "data/fim.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

#include "data/utf8.h"

namespace muster {
namespace {

TEST(Fim, ThePiecesTogetherAreTheText) {
  const std::string text = "naïve 日本語 \U0001F600 code\n";
  for (uint64_t document = 0; document < 500; ++document) {
    const FimPieces p = fim_cut({1, 2, document}, 0, text);
    EXPECT_EQ(std::string(p.prefix) + std::string(p.middle) + std::string(p.suffix), text);
    EXPECT_TRUE(is_utf8(p.prefix) && is_utf8(p.middle) && is_utf8(p.suffix));
  }
}

TEST(Fim, EveryCutHappens) {
  std::set<size_t> first, second;
  for (uint64_t document = 0; document < 2000; ++document) {
    const FimPieces p = fim_cut({1, 0, document}, 0, "abcd");
    first.insert(p.prefix.size());
    second.insert(p.prefix.size() + p.middle.size());
  }
  EXPECT_EQ(first.size(), 5u);
  EXPECT_EQ(second.size(), 5u);
}

TEST(Fim, TheChoiceHasTheRateAndDependsOnEveryPartOfTheKey) {
  int chosen = 0, differs_seed = 0, differs_epoch = 0;
  for (uint64_t document = 0; document < 10000; ++document) {
    const bool c = fim_chosen({1, 0, document}, 0.5);
    chosen += c;
    differs_seed += c != fim_chosen({2, 0, document}, 0.5);
    differs_epoch += c != fim_chosen({1, 1, document}, 0.5);
    EXPECT_FALSE(fim_chosen({1, 0, document}, 0.0));
    EXPECT_TRUE(fim_chosen({1, 0, document}, 1.0));
  }
  EXPECT_NEAR(chosen, 5000, 200);
  EXPECT_NEAR(differs_seed, 5000, 200);
  EXPECT_NEAR(differs_epoch, 5000, 200);
}

TEST(Fim, TheSameKeyGivesTheSameCutAndWindowsDiffer) {
  const std::string text(1000, 'x');
  const FimPieces a = fim_cut({1, 2, 3}, 0, text), b = fim_cut({1, 2, 3}, 0, text),
                  c = fim_cut({1, 2, 3}, 1, text);
  EXPECT_EQ(a.prefix.size(), b.prefix.size());
  EXPECT_TRUE(a.prefix.size() != c.prefix.size() || a.middle.size() != c.middle.size());
}

TEST(Fim, AnEmptyTextHasEmptyPieces) {
  const FimPieces p = fim_cut({1, 2, 3}, 0, "");
  EXPECT_TRUE(p.prefix.empty() && p.middle.empty() && p.suffix.empty());
}

TEST(Utf8, AcceptsWhatRfc3629Allows) {
  for (const char* text : {"", "plain ascii longer than eight", "é", "日本", "\U0001F600", "\x7f",
                           "\xed\x9f\xbf", "\xee\x80\x80", "\xf4\x8f\xbf\xbf", "abcdefg\xc3\xa9"}) {
    EXPECT_TRUE(is_utf8(text)) << text;
  }
  for (const char* text :
       {"\x80", "\xc0\x80", "\xc1\xbf", "\xc3", "\xe0\x80\x80", "\xed\xa0\x80", "\xf0\x80\x80\x80",
        "\xf4\x90\x80\x80", "\xf5\x80\x80\x80", "\xff", "abcdefgh\xc3", "\xe6\x97"}) {
    EXPECT_FALSE(is_utf8(text));
  }
}

}  // namespace
}  // namespace muster
