#include "train/evals/score.h"

#include <gtest/gtest.h>

#include <cmath>

#include "train/model/oracle_case.h"

namespace muster {
namespace {

template <class T>
class ScoreTest : public ::testing::Test {
 protected:
  ThreadTeam team_{2};
  Arena arena_ = *Arena::make(size_t{32} << 20, false);
  ops::Exec exec_{team_, arena_, ops::best_isa(), ops::Mode::strict};
};
using Reals = ::testing::Types<float, double>;
TYPED_TEST_SUITE(ScoreTest, Reals);

TYPED_TEST(ScoreTest, LogprobsAreTheLogSoftmaxOfTheOraclesLogits) {
  using T = TypeParam;
  const std::string folder = shared_folder() + "/oracles/model/llama_tiny";
  const auto oracle = OracleCase::open(folder, "expected_f64.safetensors");
  if (oracle == nullptr) GTEST_SKIP() << folder << " is not there; set MUSTER_SHARED";
  const auto model = oracle->load_model<T>();
  const auto all = oracle->integers("input_ids");
  const std::vector<int32_t> ids(all.begin(), all.begin() + 24);
  const auto logits = oracle->values("logits");
  std::vector<double> want;
  for (size_t t = 0; t + 1 < ids.size(); ++t) {
    double sum = 0;
    for (size_t v = 0; v < 96; ++v) sum += std::exp(logits[t * 96 + v]);
    want.push_back(logits[t * 96 + static_cast<size_t>(ids[t + 1])] - std::log(sum));
  }
  const auto score = score_tokens(*model, this->exec_, ids, nullptr, 4096);
  ASSERT_TRUE(score.ok()) << score.error().to_string();
  ASSERT_EQ(score->logprobs.size(), 23U);
  expect_close("logprobs", score->logprobs.data(), want, oracle_atol<T>(), oracle_rtol<T>());
  double mean = 0;
  for (double logprob : want) mean -= logprob / 23;
  EXPECT_NEAR(score->total.loss(), mean, sizeof(T) == 8 ? 1e-10 : 2e-5);
  EXPECT_FALSE(score->total.bits_per_byte().has_value());
}

ModelConfig bytes_model(int64_t context) {
  ModelConfig c;
  c.vocab_size = 258;
  c.hidden_size = 16;
  c.layers = 2;
  c.heads = c.kv_heads = 2;
  c.head_dim = 8;
  c.mlp_size = 32;
  c.context = context;
  return c;
}

TYPED_TEST(ScoreTest, LongTextsAreScoredInWindowsEachTokenOnce) {
  using T = TypeParam;
  auto small = *Model<T>::make(bytes_model(8)), large = *Model<T>::make(bytes_model(64));
  small->initialize(1, this->team_);
  large->initialize(1, this->team_);
  std::vector<int32_t> ids;
  for (int i = 0; i < 41; ++i) ids.push_back(i * 7 % 258);
  for (int64_t stride : {1, 3, 4, 8}) {
    const auto score = score_tokens(*small, this->exec_, ids, nullptr, stride);
    ASSERT_TRUE(score.ok());
    ASSERT_EQ(score->logprobs.size(), ids.size() - 1) << stride;
    // The token predicted at index i was read from the window that first reaches it.
    for (int64_t i = 0; i < 40; ++i) {
      int64_t first = 0;
      while (first + 8 <= i) first += stride;
      const std::vector<int32_t> window(ids.begin() + first, ids.begin() + i + 2);
      const auto alone = score_tokens(*large, this->exec_, window, nullptr, 64);
      EXPECT_EQ(alone->logprobs.back(), score->logprobs[static_cast<size_t>(i)])
          << stride << " " << i;
    }
  }
}

TYPED_TEST(ScoreTest, BitsPerByteCountTheBytesOfPredictedTokens) {
  using T = TypeParam;
  const auto tokenizer = *Tokenizer::bytes({"<|endoftext|>", "<pad>"});
  auto model = *Model<T>::make(bytes_model(32));
  model->initialize(2, this->team_);
  const std::vector<int32_t> ids = {0, 2 + 'a', 2 + 'b', 0,
                                    2 + 'c'};  // the separators stand for no byte
  const auto score = score_tokens(*model, this->exec_, ids, &tokenizer, 32);
  ASSERT_TRUE(score.ok());
  double sum = 0;
  for (double logprob : score->logprobs) sum += logprob;
  EXPECT_EQ(score->total.bytes, 3);
  EXPECT_NEAR(*score->total.bits_per_byte(), -sum / std::log(2.0) / 3, 1e-12);
  EXPECT_NEAR(score->total.loss(), -sum / 4, 1e-12);

  TextLoss all = score->total;
  all += score->total;
  EXPECT_EQ(all.tokens, 8);
  EXPECT_NEAR(all.loss(), score->total.loss(), 1e-12);
  EXPECT_NEAR(*all.bits_per_byte(), *score->total.bits_per_byte(), 1e-12);
  EXPECT_FALSE(TextLoss{}.bits_per_byte().has_value());
  EXPECT_EQ(TextLoss{}.loss(), 0);
}

TYPED_TEST(ScoreTest, BadInputIsNamed) {
  using T = TypeParam;
  auto model = *Model<T>::make(bytes_model(32));
  const auto error = [&](std::vector<int32_t> ids) {
    return score_tokens(*model, this->exec_, ids, nullptr, 32).error().message();
  };
  EXPECT_NE(error({}).find("at least 2"), std::string::npos);
  EXPECT_NE(error({5}).find("got 1"), std::string::npos);
  EXPECT_NE(error({5, 258}).find("id 258"), std::string::npos);
  EXPECT_NE(error({-1, 5}).find("id -1"), std::string::npos);
}

}  // namespace
}  // namespace muster
