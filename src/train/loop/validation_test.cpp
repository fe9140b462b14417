#include "train/loop/validation.h"

#include <gtest/gtest.h>

#include <numbers>

#include "train/evals/score.h"
#include "train/loop/loop_rig.h"

namespace muster {
namespace {

using namespace loop_rig;  // NOLINT: the vocabulary of these tests

// A token a word, so that a cut inside a word would show.
DocumentEncoder words(int64_t& encoded_bytes) {
  const auto encode = [&encoded_bytes](std::string_view text, std::vector<int32_t>& ids) {
    encoded_bytes += static_cast<int64_t>(text.size());
    while (!text.empty()) {
      const size_t end = std::min(text.find(' '), text.size() - 1) + 1;
      ids.push_back(static_cast<int32_t>(xxh3_64(text.substr(0, end)) & 0xFFFF) + 10);
      text.remove_prefix(end);
    }
  };
  return DocumentEncoder(encode, {0, 1, 2, 3}, 0, 32);
}

TEST(AppendFirstTokens, GivesTheTokensOfTheWholeTextFromItsHead) {
  std::string text;
  for (int i = 0; i < 20000; ++i) text += "w\u00f6rter" + std::to_string(i) + " ";
  const std::string long_words = std::string(5000, 'x') + " " + std::string(5000, 'y') + " z ";
  int64_t bytes = 0;
  const DocumentEncoder encoder = words(bytes);
  for (const std::string& document : {text, long_words, std::string("short")}) {
    PackedGroup whole;
    encoder.append(document, {}, whole.ids, whole.starts);
    for (const int64_t wanted : {1, 2, 40, 3000}) {
      SCOPED_TRACE(wanted);
      PackedGroup group{{7, 7, 7}, {0}};
      bytes = 0;
      append_first_tokens(encoder, document, wanted, group);
      EXPECT_EQ(group.starts, (std::vector<int64_t>{0, 3}));
      const size_t right = std::min(static_cast<size_t>(wanted), whole.ids.size());
      ASSERT_GE(group.ids.size(), 3 + right);
      EXPECT_TRUE(std::equal(whole.ids.begin(), whole.ids.begin() + static_cast<ptrdiff_t>(right),
                             group.ids.begin() + 3));
      if (document == text) {
        EXPECT_LE(bytes, 64 * wanted);
      }
    }
  }
}

TEST(Validation, IsTheScoreOfTheSameTokens) {
  SimClock clock;
  SimFiles files(clock);
  ASSERT_TRUE(make_directories(files, "corpus").ok());
  std::string text;
  for (int i = 0; i < 400; ++i) text += "line " + std::to_string(i) + " \u00e9\n";
  ASSERT_TRUE(write_file_durably(files, "corpus/a.py", text).ok());
  Rank0 rank(files, settings({"data.holdout=0.5", "data.holdout_by=tail"}));
  const std::string held_out = rank.run.corpus.read(Corpus::Part::held_out, 0).value();
  const Validation validation = Validation::make(rank.run, 1).value();
  const int64_t length = rank.run.config.data.sequence_length;
  StraightPass<float> pass(*rank.model, length);
  Arena arena = Arena::make(static_cast<size_t>(StraightPass<float>::arena_bytes(
                                rank.model->spec(), length, rank.team.size())) +
                                (size_t{16} << 20),
                            false)
                    .value();
  ops::Exec exec{rank.team, arena, ops::best_isa(), ops::Mode::strict};
  const TextLoss got = validation.run(exec, pass, *rank.group).value();

  std::vector<int32_t> ids = {rank.run.special.end_of_text};
  for (const uint32_t id : rank.run.tokenizer.encode(held_out))
    ids.push_back(static_cast<int32_t>(id));
  ids.resize(static_cast<size_t>(length) + 1);
  const Score want = score_tokens(*rank.model, exec, ids, &rank.run.tokenizer, length).value();
  EXPECT_EQ(got.tokens, length);
  EXPECT_EQ(got.bytes, length) << "a byte a token";
  EXPECT_EQ(got.nats, want.total.nats);
  EXPECT_EQ(got.bits_per_byte(), want.total.bits_per_byte());
  EXPECT_DOUBLE_EQ(*got.bits_per_byte(), got.loss() / std::numbers::ln2);
}

TEST(Validation, WithoutHeldOutTextIsEmpty) {
  SimClock clock;
  SimFiles files(clock);
  const Rank0 rank(files, settings());
  EXPECT_TRUE(Validation::make(rank.run, 4)->empty());
}

}  // namespace
}  // namespace muster
