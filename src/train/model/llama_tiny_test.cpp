// The whole Llama model against the reference values of oracles/model/llama_tiny: grouped heads, a
// head width of 12, ignored labels, packed documents. fp64 to 1e-10, fp32 to the tolerance table.
#include <gtest/gtest.h>

#include "train/model/oracle_case.h"
#include "train/model/straight_pass.h"

namespace muster {
namespace {

template <class T>
class LlamaTiny : public ::testing::Test {
 protected:
  void SetUp() override {
    const std::string folder = shared_folder() + "/oracles/model/llama_tiny";
    oracle_ = OracleCase::open(folder, "expected_f64.safetensors");
    if (oracle_ == nullptr) GTEST_SKIP() << folder << " is not there; set MUSTER_SHARED";
    model_ = oracle_->load_model<T>();
    batch_ = OwnedBatch::sequences(oracle_->integers("input_ids"), oracle_->integers("labels"), 24);
  }

  ThreadTeam team_{2};
  Arena arena_ = *Arena::make(size_t{32} << 20, false);
  ops::Exec exec_{team_, arena_, ops::best_isa(), ops::Mode::strict};
  std::unique_ptr<OracleCase> oracle_;
  std::unique_ptr<Model<T>> model_;
  OwnedBatch batch_;
};

using Reals = ::testing::Types<float, double>;
TYPED_TEST_SUITE(LlamaTiny, Reals);

TYPED_TEST(LlamaTiny, Logits) {
  StraightPass<TypeParam> pass(*this->model_, 48);
  std::vector<TypeParam> logits(48 * 96);
  pass.logits(this->exec_, this->batch_.view(), logits.data());
  expect_close("logits", logits.data(), this->oracle_->values("logits"), oracle_atol<TypeParam>(),
               oracle_rtol<TypeParam>());
}

TYPED_TEST(LlamaTiny, PackedDocumentsDoNotSeeEachOther) {
  OwnedBatch packed;
  packed.ids.assign(this->batch_.ids.begin(), this->batch_.ids.begin() + 24);
  packed.positions = this->oracle_->integers("packed_position_ids");
  packed.segments = {0, 7, 18, 24};
  StraightPass<TypeParam> pass(*this->model_, 24);
  std::vector<TypeParam> logits(24 * 96);
  pass.logits(this->exec_, packed.view(), logits.data());
  expect_close("packed_logits", logits.data(), this->oracle_->values("packed_logits"),
               oracle_atol<TypeParam>(), oracle_rtol<TypeParam>());
}

TYPED_TEST(LlamaTiny, LossAndAllGradients) {
  using T = TypeParam;
  StraightPass<T> pass(*this->model_, 48);
  std::vector<std::vector<T>> buffers;
  std::vector<T*> grads;
  for (const UnitSpec& unit : this->model_->spec().units) buffers.emplace_back(unit.elements);
  for (auto& buffer : buffers) grads.push_back(buffer.data());
  std::vector<T> losses(48);
  const auto valid = this->batch_.valid();
  pass.gradients(this->exec_, this->batch_.view(), T{1} / static_cast<T>(valid), T{0}, grads,
                 losses.data());
  double sum = 0;
  for (T loss : losses) sum += static_cast<double>(loss);
  const double loss = sum / static_cast<double>(valid);
  expect_close("loss", &loss, this->oracle_->values("loss_ce"), oracle_atol<T>(), oracle_rtol<T>());
  for (const Param& p : this->model_->spec().params)
    expect_close("grad." + p.name, buffers[static_cast<size_t>(p.unit)].data() + p.offset,
                 this->oracle_->values("grad." + p.name), oracle_atol<T>(), oracle_rtol<T>());
}

}  // namespace
}  // namespace muster
