#include "train/spec/checkpoint_model.h"

#include <gtest/gtest.h>

#include <map>

#include "sys/sim_files.h"

namespace muster {
namespace {

ModelConfig tiny() {
  ModelConfig c;
  c.vocab_size = 5;
  c.hidden_size = 4;
  c.layers = 2;
  c.heads = 2;
  c.kv_heads = 1;
  c.head_dim = 2;
  c.mlp_size = 3;
  c.context = 8;
  return c;
}

class CheckpointModelTest : public ::testing::Test {
 protected:
  CheckpointModelTest() {
    float next = 0;
    for (const Param& p : spec_.params) {
      auto& values = values_[p.name];
      values.resize(static_cast<size_t>(p.count()));
      for (float& v : values) v = next += 0.125F;
    }
  }
  Status write(const std::string& folder) {
    return write_model_checkpoint(
        files_, clock_, random_, folder, spec_,
        [this](const Param& p) {
          return std::as_bytes(std::span<const float>(values_.at(p.name)));
        },
        "{\"a\":1}", "fingerprint");
  }

  ModelSpec spec_ = *make_model_spec(tiny(), Real::f32);
  std::map<std::string, std::vector<float>> values_;
  SimClock clock_;
  SimRandom random_{3};
  SimFiles files_{clock_};
};

TEST_F(CheckpointModelTest, AModelWrittenIsReadBackInBothWidths) {
  const Status written = write("model");
  ASSERT_TRUE(written.ok()) << written.error().to_string();
  auto reader = CheckpointReader::open(files_, "model");
  ASSERT_TRUE(reader.ok()) << reader.error().to_string();
  const auto config = read_checkpoint_config(*reader);
  ASSERT_TRUE(config.ok()) << config.error().to_string();
  EXPECT_EQ(*config, spec_.config);
  EXPECT_EQ(*reader->attachment(kTokenizerFile), "{\"a\":1}");
  EXPECT_EQ(reader->manifest().tokenizer, "fingerprint");
  for (const Param& p : spec_.params) {
    std::vector<float> single(static_cast<size_t>(p.count()));
    std::vector<double> wide(single.size());
    ASSERT_TRUE(load_parameter(*reader, p, std::span(single)).ok());
    ASSERT_TRUE(load_parameter(*reader, p, std::span(wide)).ok());
    EXPECT_EQ(single, values_.at(p.name));
    EXPECT_TRUE(std::equal(wide.begin(), wide.end(), single.begin()));
  }
  // Nothing but the checkpoint is left beside it.
  const auto entries = files_.list(".");
  ASSERT_TRUE(entries.ok());
  ASSERT_EQ(entries->size(), 1U);
  EXPECT_EQ(entries->front().name, "model");
}

TEST_F(CheckpointModelTest, AnExistingNameIsRefused) {
  ASSERT_TRUE(write("model").ok());
  EXPECT_EQ(write("model").error().code(), Code::already_exists);
}

TEST_F(CheckpointModelTest, FoldersOfOthersBesideItStay) {
  ASSERT_TRUE(make_directories(files_, "model.new").ok());
  ASSERT_TRUE(write_file_durably(files_, "model.new/notes", "mine").ok());
  for (const char* name : {"model", "with-slash/", "with-slashes///"}) {
    const Status written = write(name);
    ASSERT_TRUE(written.ok()) << name << ": " << written.error().to_string();
    EXPECT_TRUE(CheckpointReader::open(files_, name).ok()) << name;
  }
  EXPECT_EQ(read_file(files_, "model.new/notes").value(), "mine");
  std::vector<std::string> names;
  const std::vector<DirectoryEntry> entries = files_.list(".").value();
  for (const DirectoryEntry& entry : entries) names.push_back(entry.name);
  EXPECT_EQ(names, (std::vector<std::string>{"model", "model.new", "with-slash", "with-slashes"}));
  EXPECT_EQ(write("model/").error().code(), Code::already_exists);
}

TEST_F(CheckpointModelTest, AMissingParentIsNamed) {
  const Status written = write("none/model");
  ASSERT_FALSE(written.ok());
  EXPECT_EQ(written.error().code(), Code::not_found);
}

TEST_F(CheckpointModelTest, AFailedWriteLeavesNothing) {
  for (uint64_t at = 0; at < 12; at += 3) {
    files_.fail_operations(files_.operations() + at, 1, ENOSPC);
    const Status status = write("model");
    if (status.ok()) {  // the failing operation was none that the result hangs on
      ASSERT_TRUE(remove_tree(files_, "model").ok());
      continue;
    }
    EXPECT_EQ(status.error().code(), Code::no_space);
    EXPECT_TRUE(files_.list(".").value().empty());
  }
  EXPECT_TRUE(write("model").ok());
}

TEST_F(CheckpointModelTest, RotatedProjectionsCarryTheirPairing) {
  for (const Param& p : spec_.params) {
    const bool rotated =
        p.name.find("q_proj") != std::string::npos || p.name.find("k_proj") != std::string::npos;
    EXPECT_EQ(parameter_info(p, Real::f32).layout, rotated ? "rope_halves" : "") << p.name;
  }
  const TensorInfo m = moment_info(spec_.params[0], Real::f64, Moment::second);
  EXPECT_EQ(m.name, "v.model.embed_tokens.weight");
  EXPECT_EQ(m.role, Role::moment);
  EXPECT_EQ(m.dtype, Dtype::f64);
}

}  // namespace
}  // namespace muster
