#include "train/model/model_checkpoint.h"

#include <gtest/gtest.h>

#include "sys/sim_files.h"
#include "train/spec/checkpoint_model.h"

namespace muster {
namespace {

TEST(ModelCheckpoint, AModelComesBackWithTheSameBits) {
  ModelConfig config;
  config.vocab_size = 50;
  config.hidden_size = 12;
  config.layers = 2;
  config.heads = config.kv_heads = 2;
  config.head_dim = 6;
  config.mlp_size = 20;
  config.context = 16;
  ThreadTeam team(1);
  SimClock clock;
  SimRandom random(1);
  SimFiles files(clock);
  auto model = *Model<float>::make(config);
  model->initialize(5, team);
  const auto written = write_model_checkpoint(
      files, clock, random, "m", model->spec(),
      [&](const Param& p) { return std::as_bytes(std::span<const float>(model->view(p))); }, "",
      "");
  ASSERT_TRUE(written.ok()) << written.error().to_string();
  auto reader = CheckpointReader::open(files, "m");
  ASSERT_TRUE(reader.ok());
  const auto back = load_model<float>(*reader);
  ASSERT_TRUE(back.ok()) << back.error().to_string();
  const auto wide = load_model<double>(*reader);
  ASSERT_TRUE(wide.ok());
  for (size_t u = 0; u < model->spec().units.size(); ++u) {
    const int unit = static_cast<int>(u);
    for (int64_t i = 0; i < model->spec().units[u].elements; ++i) {
      ASSERT_EQ((*back)->unit(unit)[i], model->unit(unit)[i]);
      ASSERT_EQ((*wide)->unit(unit)[i], model->unit(unit)[i]);
    }
  }
  const auto tensors = parameter_tensors(*model);
  ASSERT_EQ(tensors.size(), model->spec().params.size());
  EXPECT_EQ(tensors[0].data, reinterpret_cast<std::byte*>(model->unit(0)));
}

}  // namespace
}  // namespace muster
