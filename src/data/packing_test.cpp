#include "data/packing.h"

#include <gtest/gtest.h>

#include "data/document_encoder.h"

namespace muster {
namespace {

using Ints = std::vector<int32_t>;

// Segments: [0 a b c] [0 d] [0 e f]; <|endoftext|> is 0.
PackedGroup group() {
  return {{0, 1, 2, 3, 0, 4, 0, 5, 6}, {0, 4, 6}};
}

TEST(Packing, CutsTheStreamAndKeepsSegmentsApart) {
  PackedRows rows;
  for (int64_t i = 0; i < group().sequences(3); ++i) append_sequence(group(), i, 3, 0, rows);
  EXPECT_EQ(rows.tokens, (Ints{0, 1, 2, 3, 0, 4, 0, 5, 6}));
  EXPECT_EQ(rows.targets, (Ints{1, 2, 3, 0, 4, 0, 5, 6, 0}));
  // A cut segment starts again at position 0 in its new row.
  EXPECT_EQ(rows.positions, (Ints{0, 1, 2, 0, 0, 1, 0, 1, 2}));
  EXPECT_EQ(rows.segments, (Ints{0, 3, 4, 6, 9}));
  EXPECT_EQ(rows.valid_targets, 9);
}

TEST(Packing, PadsTheLastSequenceWithIgnoredTargets) {
  PackedRows rows;
  EXPECT_EQ(group().sequences(4), 3);
  append_sequence(group(), 2, 4, 0, rows);
  EXPECT_EQ(rows.tokens, (Ints{6, 0, 0, 0}));
  EXPECT_EQ(rows.targets, (Ints{0, kIgnoredTarget, kIgnoredTarget, kIgnoredTarget}));
  EXPECT_EQ(rows.segments, (Ints{0, 1, 4}));
  EXPECT_EQ(rows.valid_targets, 1);
}

TEST(Packing, EveryTokenOfTheGroupIsATargetOrAStartExactlyOnce) {
  for (int64_t length = 1; length <= 12; ++length) {
    PackedRows rows;
    for (int64_t i = 0; i < group().sequences(length); ++i)
      append_sequence(group(), i, length, 0, rows);
    EXPECT_EQ(rows.valid_targets, 9) << length;
    EXPECT_EQ(rows.tokens.size() % static_cast<size_t>(length), 0u);
    EXPECT_EQ(rows.segments.back(), static_cast<int32_t>(rows.tokens.size()));
    for (size_t s = 1; s < rows.segments.size(); ++s)
      EXPECT_LT(rows.segments[s - 1], rows.segments[s]);
  }
}

// A tokenizer of bytes: id = byte + 10.
void encode_bytes(std::string_view text, Ints& ids) {
  for (const char c : text) ids.push_back(10 + static_cast<unsigned char>(c));
}

std::string text_of(const Ints& ids, size_t begin, size_t end) {
  std::string text;
  for (size_t i = begin; i < end; ++i) text += static_cast<char>(ids[i] - 10);
  return text;
}

TEST(DocumentEncoder, APlainDocumentFollowsEndOfText) {
  const DocumentEncoder encoder(encode_bytes, {0, 1, 2, 3}, 0.0, 64);
  Ints ids;
  std::vector<int64_t> starts;
  encoder.append("ab", {1, 0, 7}, ids, starts);
  encoder.append("", {1, 0, 8}, ids, starts);
  EXPECT_EQ(ids, (Ints{0, 10 + 'a', 10 + 'b', 0}));
  EXPECT_EQ(starts, (std::vector<int64_t>{0, 3}));
}

TEST(DocumentEncoder, FimWindowsAreSuffixPrefixMiddleAndTogetherTheDocument) {
  const int64_t length = 100;
  const DocumentEncoder encoder(encode_bytes, {0, 1, 2, 3}, 1.0, length);
  std::string text;
  for (int i = 0; i < 60; ++i)
    text += "line " + std::to_string(i) + (i % 7 == 0 ? " é日本\n" : "\n");
  for (uint64_t document = 0; document < 50; ++document) {
    Ints ids;
    std::vector<int64_t> starts;
    encoder.append(text, {5, 1, document}, ids, starts);
    ASSERT_GT(starts.size(), 1u);
    std::string whole;
    for (size_t s = 0; s < starts.size(); ++s) {
      const auto begin = static_cast<size_t>(starts[s]);
      const size_t end = s + 1 < starts.size() ? static_cast<size_t>(starts[s + 1]) : ids.size();
      EXPECT_LE(static_cast<int64_t>(end - begin), length);
      ASSERT_EQ(ids[begin], 0);
      ASSERT_EQ(ids[begin + 1], 3);  // fim_suffix
      size_t prefix = begin + 2, middle = begin + 2;
      while (ids[prefix] != 1) ++prefix;
      while (ids[middle] != 2) ++middle;
      whole += text_of(ids, prefix + 1, middle) + text_of(ids, middle + 1, end) +
               text_of(ids, begin + 2, prefix);
    }
    EXPECT_EQ(whole, text);
  }
}

}  // namespace
}  // namespace muster
