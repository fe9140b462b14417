#include "train/loop/start_check.h"

#include <gtest/gtest.h>

#include "ckpt/scan.h"
#include "train/loop/loop_rig.h"

namespace muster {
namespace {

using namespace loop_rig;  // NOLINT: the vocabulary of these tests

std::string outcome(const Status& status) {
  return status.ok() ? "accepted" : status.error().to_string();
}

TEST(StartCheck, AnEmptyDirectoryTakesAnyRunThatFitsItsMemory) {
  SimClock clock;
  SimFiles files(clock);
  EXPECT_EQ(outcome(check_start(files, warm(files, settings()))), "accepted");
  EXPECT_NE(outcome(check_start(files, warm(files, settings({"train.memory_budget=1KiB"}))))
                .find("raise train.memory_budget"),
            std::string::npos);
  EXPECT_NE(
      outcome(check_start(files, warm(files, settings({"checkpoint.ring_buffer_size=1500KiB"}))))
          .find("not a number of whole MiB"),
      std::string::npos);
}

TEST(StartCheck, ARunGoesOnOnlyWithTheSettingsThatDecideItsNumbers) {
  SimClock clock;
  SimFiles files(clock);
  {
    Rank0 rank(files, settings());
    ASSERT_TRUE(rank.keeper->begin(rank.scalars(20)).ok());
    ASSERT_TRUE(rank.keeper->drain().ok());
  }
  const struct {
    const char* set;
    const char* says;
  } cases[] = {
      {"run.workers=2", "accepted"},
      {"train.threads=2", "accepted"},
      {"optimizer.lr=0.5", "accepted"},
      {"train.steps=20", "accepted"},
      {"train.steps=19", "beyond train.steps = 19"},
      {"train.seed=2", "train.seed = 1 and this run has 2"},
      {"train.mode=fast", "train.mode = strict and this run has fast"},
      {"batch.micro_batches_per_step=16", "batch.micro_batches_per_step = 8"},
      {"batch.virtual_shards=4", "batch.virtual_shards = 8 and this run has 4"},
      {"model.hidden=32", "belongs to another model"},
      {"model.layers=2", "it has no tensor"},
      {"data.holdout_by=tail", "the corpus found is"},
      {"data.group_documents=8", "sequence length or fill-in-the-middle rate"},
  };
  const uint64_t operations = files.operations();
  for (const auto& c : cases) {
    SCOPED_TRACE(c.set);
    const Config config = settings({c.set});
    const TrainConfig typed = make_train_config(config).value();
    SimRandom random(1);
    Corpus corpus = Corpus::open(files, random, corpus_spec(typed.data, "cache")).value();
    const Warm run = make_warm(RunDirectory("run"), config, std::move(corpus),
                               tokenizer_to_json(Tokenizer::bytes(code_specials()).value()), "")
                         .value();
    const std::string got = outcome(check_start(files, run));
    EXPECT_NE(got.find(c.says), std::string::npos) << got;
  }
  EXPECT_EQ(files.operations(), operations) << "it only reads";
}

}  // namespace
}  // namespace muster
