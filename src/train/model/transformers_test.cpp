// Both families against the pinned transformers on random weights, through the folders that export
// and import use: transformers must load what is written here, compute the same logits, loss and
// gradients, and what it saves must read back bit for bit. RoPE of transformers is computed in
// float32 even in a double model, so the Llama case allows for that.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>

#include "base/hash.h"
#include "base/philox.h"
#include "base/strict_math.h"
#include "train/model/oracle_case.h"
#include "train/model/straight_pass.h"

namespace muster {
namespace {

std::string python() {
  const char* given = std::getenv("MUSTER_PYTHON");
  return given != nullptr ? given : std::string(MUSTER_SOURCE_DIR) + "/.venv/bin/python";
}

ModelConfig small(Family family, bool tied) {
  ModelConfig c;
  c.family = family;
  c.vocab_size = 61;
  c.hidden_size = 24;
  c.layers = 2;
  c.heads = 4;
  c.kv_heads = family == Family::gpt2 ? 4 : 2;
  c.head_dim = 6;
  c.mlp_size = family == Family::gpt2 ? 96 : 50;
  c.context = 32;
  c.norm_eps = 1e-5;
  c.tie_embeddings = tied;
  return c;
}

// Weights large enough that every path matters, biases and norms included.
void fill(Model<float>& model) {
  for (const Param& p : model.spec().params) {
    const bool norm_weight = p.init.kind == InitKind::ones;
    auto view = model.view(p);
    for (size_t i = 0; i < view.size(); ++i)
      view[i] =
          static_cast<float>((norm_weight ? 1.0 : 0.0) +
                             0.2 * strict::normal(xxh3_64(p.name), static_cast<uint64_t>(i), 1));
  }
}

class Transformers : public ::testing::Test {
 protected:
  void write_case(const std::string& name, const ModelConfig& config) {
    auto model = *Model<float>::make(config);
    fill(*model);
    const std::string folder = root_ + "/" + name;
    const auto written = write_hf_folder(files_, folder, model->spec(), [&](const Param& p) {
      return std::as_bytes(model->view(p));
    });
    ASSERT_TRUE(written.ok()) << written.error().to_string();
    std::vector<int64_t> ids, labels;
    for (int64_t t = 0; t < 2 * 20; ++t) {
      ids.push_back(static_cast<int64_t>(philox_below(61, 7, static_cast<uint64_t>(t), 0)));
      labels.push_back(t % 5 == 3 ? -100 : ids.back());
    }
    ASSERT_TRUE(write_safetensors(
                    files_, folder + "/batch.safetensors",
                    {{"ids", Dtype::i64, {2, 20}, 0, 0}, {"labels", Dtype::i64, {2, 20}, 0, 0}},
                    {std::as_bytes(std::span(ids)), std::as_bytes(std::span(labels))}, {})
                    .ok());
    for (size_t i = 0; i < ids.size(); ++i) {
      ids_.push_back(static_cast<int32_t>(ids[i]));
      labels_.push_back(static_cast<int32_t>(labels[i]));
    }
    models_.push_back(std::move(model));
    folders_.push_back(folder);
  }

  template <class T>
  void check(size_t index, double atol, double rtol) {
    SCOPED_TRACE(folders_[index]);
    auto oracle = OracleCase::open(folders_[index], "expected.safetensors");
    ASSERT_NE(oracle, nullptr);
    const auto model = oracle->load_model<T>();
    const std::vector<int32_t> ids(ids_.begin() + 40 * static_cast<int64_t>(index),
                                   ids_.begin() + 40 * static_cast<int64_t>(index + 1));
    const std::vector<int32_t> labels(labels_.begin() + 40 * static_cast<int64_t>(index),
                                      labels_.begin() + 40 * static_cast<int64_t>(index + 1));
    const OwnedBatch batch = OwnedBatch::sequences(ids, labels, 20);
    ASSERT_TRUE(check_batch(model->config(), batch.view()).ok());
    StraightPass<T> pass(*model, 40);
    std::vector<T> logits(40 * 61), losses(40);
    pass.logits(exec_, batch.view(), logits.data());
    expect_close("logits", logits.data(), oracle->values("logits"), atol, rtol);
    std::vector<std::vector<T>> buffers;
    std::vector<T*> grads;
    for (const UnitSpec& unit : model->spec().units) buffers.emplace_back(unit.elements);
    for (auto& buffer : buffers) grads.push_back(buffer.data());
    pass.gradients(exec_, batch.view(), T{1} / static_cast<T>(batch.valid()), T{0}, grads,
                   losses.data());
    double sum = 0;
    for (T loss : losses) sum += static_cast<double>(loss);
    sum /= static_cast<double>(batch.valid());
    expect_close("loss", &sum, oracle->values("loss"), atol, rtol);
    for (const Param& p : model->spec().params)
      expect_close("grad." + p.name, buffers[static_cast<size_t>(p.unit)].data() + p.offset,
                   oracle->values("grad." + p.name), atol, rtol);
  }

  void TearDown() override { std::filesystem::remove_all(root_); }

  std::string root_ =
      (std::filesystem::temp_directory_path() / ("muster-transformers-" + std::to_string(getpid())))
          .string();
  RealFiles files_{""};
  ThreadTeam team_{2};
  Arena arena_ = *Arena::make(size_t{32} << 20, false);
  ops::Exec exec_{team_, arena_, ops::best_isa(), ops::Mode::strict};
  std::vector<std::unique_ptr<Model<float>>> models_;
  std::vector<std::string> folders_;
  std::vector<int32_t> ids_, labels_;
};

TEST_F(Transformers, AgreesOnBothFamilies) {
  const std::string interpreter = python();
  if (std::system(
          (interpreter + " -c 'import transformers, safetensors' >/dev/null 2>&1").c_str()) != 0)
    GTEST_SKIP() << interpreter << " has no transformers; set MUSTER_PYTHON";
  write_case("gpt2", small(Family::gpt2, true));
  write_case("gpt2_untied", small(Family::gpt2, false));
  write_case("llama_tied", small(Family::llama, true));
  std::string command = interpreter + " " + MUSTER_SOURCE_DIR + "/src/train/model/reference.py";
  for (const std::string& folder : folders_) command += " " + folder;
  ASSERT_EQ(std::system((command + " > " + root_ + "/log 2>&1").c_str()), 0)
      << *read_file(files_, root_ + "/log");

  for (size_t i = 0; i < folders_.size(); ++i) {
    const bool llama = models_[i]->config().family == Family::llama;
    check<double>(i, llama ? 1e-6 : 1e-10, 0);
    check<float>(i, oracle_atol<float>(), oracle_rtol<float>());
    auto saved = HfWeights::open(files_, folders_[i] + "/saved", models_[i]->spec());
    ASSERT_TRUE(saved.ok()) << saved.error().to_string();
    EXPECT_EQ(*read_hf_config(files_, folders_[i] + "/saved"), models_[i]->config());
    for (const Param& p : models_[i]->spec().params) {
      std::vector<float> back(static_cast<size_t>(p.count()));
      ASSERT_TRUE(saved->read(p, std::span(back)).ok());
      EXPECT_EQ(std::memcmp(back.data(), models_[i]->view(p).data(), back.size() * sizeof(float)),
                0)
          << p.name;
    }
  }
}

}  // namespace
}  // namespace muster
