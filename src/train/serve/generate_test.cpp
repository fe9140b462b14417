#include "train/serve/generate.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>

#include "base/hash.h"
#include "base/strict_math.h"
#include "train/model/straight_pass.h"
#include "train/serve/prompt.h"

namespace muster {
namespace {

ModelConfig small(Family family) {
  ModelConfig c;
  c.family = family;
  c.vocab_size = 70;
  c.hidden_size = 24;
  c.layers = 3;
  c.heads = 4;
  c.kv_heads = family == Family::gpt2 ? 4 : 2;
  c.head_dim = 6;
  c.mlp_size = 40;
  c.context = 150;  // more than two blocks of keys
  return c;
}

template <class T>
std::unique_ptr<Model<T>> random_model(Family family) {
  auto model = *Model<T>::make(small(family));
  for (const Param& p : model->spec().params) {
    auto view = model->view(p);
    for (size_t i = 0; i < view.size(); ++i)
      view[i] = static_cast<T>((p.init.kind == InitKind::ones ? 1.0 : 0.0) +
                               0.3 * strict::normal(xxh3_64(p.name), static_cast<uint64_t>(i), 4));
  }
  return model;
}

template <class T>
std::vector<T> full_logits(const Model<T>& model, ops::Exec& exec,
                           const std::vector<int32_t>& ids) {
  std::vector<int32_t> positions(ids.size());
  for (size_t t = 0; t < ids.size(); ++t) positions[t] = static_cast<int32_t>(t);
  const int32_t segments[2] = {0, static_cast<int32_t>(ids.size())};
  const auto tokens = static_cast<int64_t>(ids.size());
  std::vector<T> logits(ids.size() * static_cast<size_t>(model.config().vocab_size));
  StraightPass<T> pass(model, tokens);
  pass.logits(exec, {tokens, ids.data(), nullptr, positions.data(), segments}, logits.data());
  return logits;
}

template <class T>
class GenerateTest : public ::testing::Test {
 protected:
  ThreadTeam team_{2};
  Arena arena_ = *Arena::make(size_t{48} << 20, false);
  ops::Exec exec_{team_, arena_, ops::best_isa(), ops::Mode::strict};
};
using Reals = ::testing::Types<float, double>;
TYPED_TEST_SUITE(GenerateTest, Reals);

TYPED_TEST(GenerateTest, GreedyOutputIsThatOfFullForwardPassesBitForBit) {
  using T = TypeParam;
  for (Family family : {Family::llama, Family::gpt2}) {
    SCOPED_TRACE(family_name(family));
    const auto model = random_model<T>(family);
    const auto V = static_cast<size_t>(model->config().vocab_size);
    Decoder<T> decoder(*model, this->exec_, 150);
    std::vector<int32_t> ids = {3, 14, 15, 9, 26};
    ASSERT_TRUE(decoder.read(ids).ok());
    // 145 tokens with the cache, then one full pass over all of them: row t must be what the cache
    // gave at t.
    std::vector<std::vector<T>> rows;
    for (;;) {
      rows.emplace_back(decoder.logits().begin(), decoder.logits().end());
      if (decoder.length() == decoder.capacity()) break;
      ids.push_back(*sample(decoder.logits(), Sampling{}, decoder.length()));
      ASSERT_TRUE(decoder.append(ids.back()).ok());
    }
    const auto all = full_logits(*model, this->exec_, ids);
    for (size_t i = 0; i < rows.size(); ++i)
      ASSERT_EQ(std::memcmp(rows[i].data(), all.data() + (4 + i) * V, V * sizeof(T)), 0)
          << "after token " << 4 + i;
    // And token by token: the prefix alone predicts the next one.
    for (size_t n : {5U, 6U, 64U, 65U, 149U}) {
      const std::vector<int32_t> prefix(ids.begin(), ids.begin() + static_cast<std::ptrdiff_t>(n));
      const auto logits = full_logits(*model, this->exec_, prefix);
      EXPECT_EQ(*sample(std::span<const T>(logits).last(V), Sampling{}, 0), ids[n]);
    }
  }
}

TYPED_TEST(GenerateTest, EndsAtAStopTokenALimitOrTheContext) {
  using T = TypeParam;
  const auto model = random_model<T>(Family::llama);
  Decoder<T> decoder(*model, this->exec_, 40);
  GenerateRequest request;
  request.prompt = {1, 2, 3};
  request.sampling = {.temperature = 1.5, .seed = 4};
  const auto whole = generate(decoder, request, {});
  ASSERT_TRUE(whole.ok()) << whole.error().to_string();
  EXPECT_EQ(whole->reason, StopReason::context);
  EXPECT_EQ(whole->tokens.size(), 38U);  // the last one is drawn from a full cache

  request.max_tokens = 5;
  const auto five = generate(decoder, request, {});
  EXPECT_EQ(five->reason, StopReason::max_tokens);
  EXPECT_TRUE(std::equal(five->tokens.begin(), five->tokens.end(), whole->tokens.begin()));
  EXPECT_EQ(five->tokens.size(), 5U);

  request.max_tokens = 0;
  request.stop = {whole->tokens[7]};
  const auto stopped = generate(decoder, request, {});
  EXPECT_EQ(stopped->reason, StopReason::stop_token);
  EXPECT_LE(stopped->tokens.size(), 7U);
  EXPECT_EQ(std::count(stopped->tokens.begin(), stopped->tokens.end(), whole->tokens[7]), 0);

  request.stop.clear();
  std::vector<int32_t> seen;
  const auto heard = generate<T>(decoder, request, [&](int32_t id) {
    seen.push_back(id);
    return seen.size() < 3;
  });
  EXPECT_EQ(heard->tokens, seen);
  EXPECT_EQ(seen.size(), 3U);
}

TEST(MostTokens, ArePromptAndNewOnesButNeverMoreThanTheContext) {
  const struct {
    size_t prompt;
    int64_t max_tokens, want;
  } cases[] = {{3, 5, 8},    {3, 0, 100},   {3, 97, 100},  {3, 98, 100}, {3, INT64_MAX, 100},
               {99, 1, 100}, {100, 1, 100}, {200, 5, 100}, {1, 1, 2}};
  for (const auto& c : cases) {
    GenerateRequest request;
    request.prompt.resize(c.prompt);
    request.max_tokens = c.max_tokens;
    EXPECT_EQ(most_tokens(request, 100), c.want) << c.prompt << " + " << c.max_tokens;
  }
}

// The smallest decoder and scratch that `request` needs give what those of the whole context give.
TYPED_TEST(GenerateTest, ACacheOfTheRequestsSizeSuffices) {
  using T = TypeParam;
  const auto model = random_model<T>(Family::llama);
  GenerateRequest request;
  request.prompt = {3, 14, 15};
  request.max_tokens = 40;
  Decoder<T> whole(*model, this->exec_, 150);
  const auto want = generate(whole, request, {});
  const int64_t capacity = most_tokens(request, 150);
  Arena arena = *Arena::make(
      static_cast<size_t>(StraightPass<T>::arena_bytes(model->spec(), capacity, 2)), false);
  ops::Exec exec{this->team_, arena, ops::best_isa(), ops::Mode::strict};
  auto decoder = Decoder<T>::make(*model, exec, capacity);
  ASSERT_TRUE(decoder.ok());
  const auto made = generate(*decoder, request, {});
  ASSERT_TRUE(made.ok() && want.ok());
  EXPECT_EQ(made->tokens, want->tokens);
  EXPECT_EQ(made->reason, StopReason::max_tokens);
}

TEST(Decoder, MemoryThatIsNotThereIsAnErrorThatNamesTheSize) {
#ifdef __SANITIZE_ADDRESS__
  GTEST_SKIP() << "the sanitizer's own memory does not fit a limit of address space";
#else
  ModelConfig config = small(Family::llama);
  config.context = 1 << 14;
  config.layers = 192;
  const auto model = *Model<float>::make(config);
  ThreadTeam team(1);
  Arena arena = *Arena::make(size_t{1} << 20, false);
  ops::Exec exec{team, arena, ops::best_isa(), ops::Mode::strict};
  std::fflush(nullptr);
  const pid_t child = fork();
  if (child == 0) {
    const rlimit none{0, 0};  // no further mapping succeeds
    setrlimit(RLIMIT_AS, &none);
    const auto decoder = Decoder<float>::make(*model, exec, config.context);
    // 2 * 192 layers * 2 heads * 16,384 tokens * 6 numbers of 4 bytes. The allocator holds no such
    // piece back.
    const bool right = !decoder.ok() && decoder.error().code() == Code::no_space &&
                       decoder.error().message().find("16384 tokens, 288 MiB") != std::string::npos;
    if (!right && !decoder.ok()) std::fputs(decoder.error().message().c_str(), stderr);
    _exit(right ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
#endif
}

TYPED_TEST(GenerateTest, WhatCannotBeReadIsAnError) {
  using T = TypeParam;
  const auto model = random_model<T>(Family::llama);
  Decoder<T> decoder(*model, this->exec_, 4);
  GenerateRequest request;
  EXPECT_EQ(generate(decoder, request, {}).error().code(), Code::invalid_argument);  // empty
  request.prompt = {1, 2, 3, 4, 5};
  EXPECT_NE(generate(decoder, request, {}).error().message().find("5 tokens"), std::string::npos);
  request.prompt = {1, 70};
  EXPECT_NE(generate(decoder, request, {}).error().message().find("id 70"), std::string::npos);
  request.prompt = {1};
  request.max_tokens = -1;
  EXPECT_EQ(generate(decoder, request, {}).error().code(), Code::invalid_argument);
  ASSERT_TRUE((decoder.clear(), decoder.read(std::vector<int32_t>{1, 2, 3, 4}).ok()));
  EXPECT_EQ(decoder.append(1).error().code(), Code::no_space);
}

TEST(Prompt, StandsAsInTraining) {
  const auto tokenizer =
      *Tokenizer::bytes({"<|endoftext|>", "<fim_prefix>", "<fim_middle>", "<fim_suffix>"});
  const auto byte = [](char c) { return 4 + static_cast<int32_t>(static_cast<unsigned char>(c)); };
  EXPECT_EQ(*completion_prompt(tokenizer, "ab"), (std::vector<int32_t>{0, byte('a'), byte('b')}));
  EXPECT_EQ(*completion_prompt(tokenizer, ""), (std::vector<int32_t>{0}));
  EXPECT_EQ(*infill_prompt(tokenizer, "p", "s"),
            (std::vector<int32_t>{0, 3, byte('s'), 1, byte('p'), 2}));
  // Special text from a user is text.
  EXPECT_EQ(completion_prompt(tokenizer, "<fim_middle>")->size(), 1U + 12U);
  const auto plain = *Tokenizer::bytes({"<|endoftext|>"});
  const std::string_view huge("x", kMaxTextBytes + 1);  // only its size is looked at
  EXPECT_EQ(completion_prompt(tokenizer, huge).error().code(), Code::invalid_argument);
  EXPECT_EQ(infill_prompt(tokenizer, "a", huge).error().code(), Code::invalid_argument);
  EXPECT_NE(infill_prompt(plain, "a", "b").error().message().find("<fim_suffix>"),
            std::string::npos);
}

}  // namespace
}  // namespace muster
