#include "train/step/train_config.h"

#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

#include "train/step/plan_step.h"

namespace muster {
namespace {

Result<TrainConfig> config_of(const std::vector<std::string>& sets, const std::string& file = "",
                              const std::string& text = "") {
  Config::Sources sources;
  sources.sets = sets;
  sources.file_name = file;
  sources.file_text = text;
  MUSTER_TRY(const Config config, Config::resolve(train_schema(), sources));
  return make_train_config(config);
}

TEST(TrainConfig, DefaultsAreValid) {
  const auto config = config_of({});
  ASSERT_TRUE(config.ok()) << config.error().to_string();
  EXPECT_EQ(config->model.kv_heads, config->model.heads);
  EXPECT_EQ(config->model.head_dim, 32);
  EXPECT_EQ(config->batch.virtual_shards, 8);
  EXPECT_EQ(config->tokens_per_step(), 8 * 2 * 512);
}

TEST(TrainConfig, ImpossibleSettingsNameValueAndRemedy) {
  const struct {
    const char* name;
    std::vector<std::string> sets;
    const char* want;
  } cases[] = {
      {"zero workers", {"run.workers=0"}, "run.workers = 0 is outside its range, 1 to"},
      {"more workers than micro-batches",
       {"run.workers=9"},
       "run.workers = 9 is more than the 8 micro-batches (batch.micro_batches_per_step)"},
      {"more workers than lanes",
       {"run.workers=3", "batch.virtual_shards=2"},
       "use at most 2 workers"},
      {"lanes that do not divide",
       {"batch.virtual_shards=3"},
       "batch.virtual_shards = 3 does not divide batch.micro_batches_per_step = 8"},
      {"heads that do not divide the width",
       {"model.heads=7"},
       "model.hidden = 256 is not a multiple of model.heads = 7"},
      {"an odd head width", {"model.heads=4", "model.head_dim=33"}, "model.head_dim = 33 is odd"},
      {"key heads that do not divide",
       {"model.kv_heads=3"},
       "model.kv_heads = 3 does not divide model.heads = 8"},
      {"gpt2 with grouped heads", {"model.family=gpt2", "model.kv_heads=2"}, "gpt2"},
      {"a sequence longer than the context",
       {"data.sequence_length=513"},
       "data.sequence_length = 513 is more than model.context = 512"},
      {"dropout", {"model.dropout=0.1"}, "model.dropout = 0.1 is outside its range, 0 to 0"},
      {"a vocabulary without room for bytes",
       {"data.vocabulary=256"},
       "data.vocabulary = 256 cannot hold the 256 bytes"},
      {"a vocabulary without room for the special tokens",
       {"data.vocabulary=260"},
       "data.vocabulary = 260 cannot hold the 256 bytes and 5 special tokens of data.tokenizer = "
       "\"train\": use at least 261"},
      {"a sequence without room for the marks of fill-in-the-middle",
       {"data.sequence_length=7"},
       "data.sequence_length = 7 is outside its range, 8 to"},
      {"a step whose operations overflow",
       {"batch.micro_batches_per_step=1048576", "batch.sequences_per_micro_batch=1048576"},
       "is too large to be counted for this model"},
      {"a model whose parameters overflow",
       {"model.hidden=1048576", "model.mlp=4194304", "model.layers=4096"},
       "parameters; at most"},
      {"files without paths", {"data.source=files"}, "needs data.paths"},
      {"a floor above the peak",
       {"optimizer.min_lr=0.1"},
       "optimizer.min_lr = 0.1 is above optimizer.lr"},
      {"a decay that does not fit the run",
       {"train.steps=30", "optimizer.schedule=wsd", "optimizer.decay_steps=15"},
       "optimizer.warmup_steps + decay_steps = 20 + 15 is more than train.steps = 30"},
      {"a decay that cosine does not have",
       {"optimizer.decay_steps=5"},
       "belongs to schedule \"wsd\""},
      {"an unknown key", {"optimizer.learning_rate=1"}, "did you mean"},
      {"an unknown mode", {"train.mode=quick"}, "not one of: strict, fast"},
  };
  for (const auto& c : cases) {
    SCOPED_TRACE(c.name);
    const auto config = config_of(c.sets);
    ASSERT_FALSE(config.ok());
    EXPECT_EQ(config.error().code(), Code::invalid_argument);
    EXPECT_NE(config.error().to_string().find(c.want), std::string::npos)
        << config.error().to_string();
  }
}

TEST(TrainConfig, TheEdgeOfValidIsValid) {
  for (const std::vector<std::string>& sets : std::vector<std::vector<std::string>>{
           {"run.workers=8"},
           {"run.workers=2", "batch.virtual_shards=2"},
           {"data.sequence_length=512"},
           {"data.vocabulary=261"},
           {"data.sequence_length=8"},
           {"train.steps=20"},
           {"optimizer.min_lr=0.001"},
           {"optimizer.schedule=wsd", "optimizer.decay_steps=130"}}) {
    const auto config = config_of(sets);
    EXPECT_TRUE(config.ok()) << sets[0] << ": " << config.error().to_string();
  }
}

Result<TrainConfig> example(const std::string& name) {
  std::ifstream in(std::string(MUSTER_SOURCE_DIR) + "/examples/" + name);
  std::stringstream text;
  text << in.rdbuf();
  return config_of({}, name, text.str());
}

// The issue of this example's size: 3 to 6 million parameters, a step of at most 2 s on two cores
// of 70 GFLOP/s.
TEST(Examples, CodeTinyHasTheSizeItSays) {
  const auto config = example("code-tiny.toml");
  ASSERT_TRUE(config.ok()) << config.error().to_string();
  const ModelSpec model = make_model_spec(config->model, Real::f32).value();
  EXPECT_GE(model.parameter_count(), 3'000'000);
  EXPECT_LE(model.parameter_count(), 6'000'000);
  EXPECT_EQ(config->model.vocab_size, 4096);
  EXPECT_EQ(config->batch.micro_batches_per_step, 8);
  EXPECT_GE(config->train.steps, 120);
  EXPECT_EQ(config->train.mode, TrainSettings::Mode::strict);
  const int64_t flops =
      8 * model.training_flops(Workload::causal(config->batch.sequences_per_micro_batch,
                                                config->data.sequence_length));
  EXPECT_LT(static_cast<double>(flops), 2.0 * 2 * 70e9 * 0.85);
}

TEST(Examples, ShakespeareHasTheCommonShape) {
  const auto config = example("shakespeare-char.toml");
  ASSERT_TRUE(config.ok()) << config.error().to_string();
  EXPECT_EQ(config->model.family, Family::gpt2);
  EXPECT_EQ(config->tokens_per_step(), 12 * 64);
  EXPECT_EQ(config->train.steps, 2000);
  EXPECT_EQ(config->optimizer.beta2, 0.99);
  EXPECT_EQ(config->data.holdout_by, DataSettings::Holdout::tail);
}

}  // namespace
}  // namespace muster
