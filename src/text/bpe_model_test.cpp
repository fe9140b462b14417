#include "text/bpe_model.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>

namespace muster {
namespace {

using Tokens = std::vector<std::optional<std::string>>;
using Merges = std::vector<std::pair<uint32_t, uint32_t>>;
using Ids = std::vector<uint32_t>;

Tokens byte_tokens() {
  Tokens tokens;
  for (int b = 0; b < 256; ++b) tokens.emplace_back(std::string(1, static_cast<char>(b)));
  return tokens;
}

// The definition, in the plainest words.
Ids merge_plainly(const Merges& merges, const Tokens& tokens, const std::string& text) {
  std::map<std::string, uint32_t> ids;
  for (uint32_t i = 0; i < tokens.size(); ++i)
    if (tokens[i]) ids[*tokens[i]] = i;
  std::map<std::pair<uint32_t, uint32_t>, size_t> rank;
  for (size_t i = 0; i < merges.size(); ++i) rank[merges[i]] = i;
  Ids symbols;
  for (const char c : text) symbols.push_back(static_cast<uint8_t>(c));
  for (;;) {
    size_t best = merges.size(), at = 0;
    for (size_t i = 0; i + 1 < symbols.size(); ++i) {
      const auto found = rank.find({symbols[i], symbols[i + 1]});
      if (found != rank.end() && found->second < best) {
        best = found->second;
        at = i;
      }
    }
    if (best == merges.size()) return symbols;
    symbols[at] = ids.at(*tokens[symbols[at]] + *tokens[symbols[at + 1]]);
    symbols.erase(symbols.begin() + static_cast<ptrdiff_t>(at) + 1);
  }
}

struct Vocabulary {
  Tokens tokens = byte_tokens();
  Merges merges;
};

// Random merges over a small alphabet. `rising`: in an order in which both parts exist before.
// `all_ways`: every split of every token is a merge.
Vocabulary random_vocabulary(uint32_t seed, size_t size, bool rising, bool all_ways) {
  std::mt19937 random(seed);
  Vocabulary v;
  std::map<std::string, uint32_t> ids;
  for (uint32_t b = 0; b < 256; ++b) ids[*v.tokens[b]] = b;
  std::vector<uint32_t> usable = {'a', 'b', 'c', ' '};
  while (v.tokens.size() < 256 + size) {
    const uint32_t left = usable[random() % usable.size()],
                   right = usable[random() % usable.size()];
    const std::string made = *v.tokens[left] + *v.tokens[right];
    if (made.size() > 12 || ids.contains(made)) continue;
    const auto id = static_cast<uint32_t>(v.tokens.size());
    ids[made] = id;
    usable.push_back(id);
    v.tokens.emplace_back(made);
    v.merges.emplace_back(left, right);
  }
  if (all_ways) {
    v.merges.clear();
    for (uint32_t id = 256; id < v.tokens.size(); ++id) {
      const std::string& token = *v.tokens[id];
      for (size_t cut = 1; cut < token.size(); ++cut)
        if (ids.contains(token.substr(0, cut)) && ids.contains(token.substr(cut)))
          v.merges.emplace_back(ids[token.substr(0, cut)], ids[token.substr(cut)]);
    }
  }
  if (!rising) std::shuffle(v.merges.begin(), v.merges.end(), random);
  return v;
}

std::string random_piece(std::mt19937& random, size_t length) {
  std::string piece;
  while (piece.size() < length) piece.push_back("aaabbc d"[random() % 8]);
  return piece;
}

// Once with nothing readable behind the piece, once with other text there; both must agree.
size_t encode(const BpeModel& model, const std::string& piece, uint32_t* out,
              PieceScratch& scratch) {
  const std::string longer = piece + "aaaaaaaaaaaaaaaabc";
  Ids more(piece.size());
  const auto same = std::string_view(longer).substr(0, piece.size());
  more.resize(model.encode(same, longer.size(), more.data(), scratch));
  const size_t count = model.encode(piece, piece.size(), out, scratch);
  EXPECT_EQ(more, Ids(out, out + count)) << piece;
  return count;
}

TEST(BpeModel, WalkingAndMergingGiveWhatTheDefinitionGives) {
  for (uint32_t seed = 0; seed < 30; ++seed) {
    const bool rising = seed % 3 != 0, all_ways = seed % 2 == 0;
    const Vocabulary v = random_vocabulary(seed, 20 + seed * 8, rising, all_ways);
    const auto model = BpeModel::make(v.tokens, v.merges, false);
    ASSERT_TRUE(model.ok());
    EXPECT_TRUE(model->walks());
    std::mt19937 random(seed);
    PieceScratch scratch(6);
    for (int i = 0; i < 200; ++i) {
      const std::string piece = random_piece(random, 1 + random() % (i < 150 ? 40 : 400));
      const Ids want = merge_plainly(v.merges, v.tokens, piece);
      Ids got(piece.size());
      got.resize(encode(*model, piece, got.data(), scratch));
      ASSERT_EQ(got, want) << "seed " << seed << " piece " << piece;
      got.resize(piece.size());
      got.resize(model->encode_by_merging(piece, got.data(), scratch.merging));
      ASSERT_EQ(got, want) << "merging, seed " << seed << " piece " << piece;
    }
  }
}

TEST(BpeModel, TheLeftmostOfEqualMergesIsDoneFirst) {
  Vocabulary v;
  v.tokens.emplace_back("aa");
  v.merges.emplace_back('a', 'a');
  const auto model = BpeModel::make(v.tokens, v.merges, false);
  PieceScratch scratch(6);
  Ids got(5);
  got.resize(encode(*model, "aaaaa", got.data(), scratch));
  EXPECT_EQ(got, (Ids{256, 256, 'a'}));
}

TEST(BpeModel, AWholePieceWinsOnlyWithIgnoreMerges) {
  Vocabulary v;
  v.tokens.emplace_back("ab");
  v.tokens.emplace_back("abc");  // no merge makes it
  v.merges.emplace_back('a', 'b');
  PieceScratch scratch(6);
  for (const bool ignore : {false, true}) {
    const auto model = BpeModel::make(v.tokens, v.merges, ignore);
    Ids got(3), merged(3);
    got.resize(encode(*model, "abc", got.data(), scratch));
    merged.resize(model->encode_by_merging("abc", merged.data(), scratch.merging));
    EXPECT_EQ(got, ignore ? (Ids{257}) : (Ids{256, 'c'}));
    EXPECT_EQ(merged, got);
  }
}

TEST(BpeModel, MissingBytesAreLeftOutBeforeMerging) {
  Vocabulary v;
  v.tokens['-'].reset();
  v.tokens.emplace_back("ab");
  v.merges.emplace_back('a', 'b');
  const auto model = BpeModel::make(v.tokens, v.merges, false);
  EXPECT_FALSE(model->walks());
  PieceScratch scratch(6);
  Ids got(4);
  got.resize(encode(*model, "a-b-", got.data(), scratch));
  EXPECT_EQ(got, (Ids{256}));
}

TEST(BpeModel, AMergeThatMakesNoTokenIsRefused) {
  Vocabulary v;
  v.merges.emplace_back('a', 'b');
  const auto model = BpeModel::make(v.tokens, v.merges, false);
  ASSERT_FALSE(model.ok());
  EXPECT_EQ(model.error().code(), Code::invalid_argument);
}

// Counted, not timed: doubling a hard piece at most about doubles the work.
TEST(BpeModel, WorkIsLinearOnHardRuns) {
  Vocabulary v;
  std::map<std::string, uint32_t> ids;
  // Powers of two of 'a', and 'ab' pairs: long candidates that often do not fit.
  uint32_t last = 'a';
  for (size_t length = 2; length <= 64; length *= 2) {
    v.tokens.emplace_back(std::string(length, 'a'));
    v.merges.emplace_back(last, last);
    last = static_cast<uint32_t>(v.tokens.size() - 1);
  }
  v.tokens.emplace_back("ab");
  v.merges.emplace_back('a', 'b');
  const auto model = BpeModel::make(v.tokens, v.merges, false);
  ASSERT_TRUE(model->walks());
  for (const std::string unit : {"a", "ab", "aab", "aaaaaaab", "b"}) {
    uint64_t walked[2], merged[2];
    for (int k = 0; k < 2; ++k) {
      std::string piece;
      while (piece.size() < (size_t{20000} << k)) piece += unit;
      Ids a(piece.size()), b(piece.size());
      PieceScratch scratch(6);
      a.resize(encode(*model, piece, a.data(), scratch));
      b.resize(model->encode_by_merging(piece, b.data(), scratch.merging));
      EXPECT_EQ(a, b) << unit;
      walked[k] = scratch.operations;
      merged[k] = scratch.merging.operations;
    }
    EXPECT_LE(walked[1], walked[0] * 2.2) << unit;
    EXPECT_LE(merged[1], merged[0] * 2.2) << unit;
    EXPECT_LE(walked[1], 16u * 40000) << unit;
  }
}

}  // namespace
}  // namespace muster
