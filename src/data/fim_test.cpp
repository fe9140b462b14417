#include "data/fim.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

#include "text/utf8.h"

namespace muster {
namespace {

TEST(Fim, ThePiecesTogetherAreTheText) {
  const std::string text = "naïve 日本語 \U0001F600 code\n";
  for (uint64_t document = 0; document < 500; ++document) {
    const FimPieces p = fim_cut({1, 2, document}, 0, text);
    EXPECT_EQ(std::string(p.prefix) + std::string(p.middle) + std::string(p.suffix), text);
    EXPECT_TRUE(valid_utf8_prefix(p.prefix) == p.prefix.size() &&
                valid_utf8_prefix(p.middle) == p.middle.size());
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

}  // namespace
}  // namespace muster
