// Six AdamW steps of the Llama oracle: the loss before each is the reference's. lr 1e-2, betas 0.9
// and 0.95, decay 0.1 on every tensor, no clipping.
#include <gtest/gtest.h>

#include "train/model/oracle_case.h"
#include "train/model/straight_pass.h"
#include "train/optim/adamw.h"

namespace muster {
namespace {

template <class T>
class AdamWTrajectory : public ::testing::Test {};
using Reals = ::testing::Types<float, double>;
TYPED_TEST_SUITE(AdamWTrajectory, Reals);

TYPED_TEST(AdamWTrajectory, LossesAreTheReferences) {
  using T = TypeParam;
  const std::string folder = shared_folder() + "/oracles/model/llama_tiny";
  const auto oracle = OracleCase::open(folder, "expected_f64.safetensors");
  if (oracle == nullptr) GTEST_SKIP() << folder << " is not there; set MUSTER_SHARED";
  const auto model = oracle->load_model<T>();
  const auto batch =
      OwnedBatch::sequences(oracle->integers("input_ids"), oracle->integers("labels"), 24);
  const ModelSpec& spec = model->spec();
  ThreadTeam team(2);
  Arena arena = *Arena::make(static_cast<size_t>(StraightPass<T>::arena_bytes(spec, 48, 2)), false);
  ops::Exec exec{team, arena, ops::best_isa(), ops::Mode::strict};

  std::vector<std::vector<T>> gradient, m, v;
  std::vector<T*> grads;
  for (const UnitSpec& unit : spec.units) {
    gradient.emplace_back(unit.elements);
    m.emplace_back(unit.elements);
    v.emplace_back(unit.elements);
  }
  for (auto& buffer : gradient) grads.push_back(buffer.data());

  const AdamW adamw{0.9, 0.95, 1e-8, 0.1, DecayPolicy::all};
  StraightPass<T> pass(*model, 48);
  std::vector<T> losses(48);
  std::vector<double> trajectory;
  for (int64_t step = 0; step < 6; ++step) {
    pass.gradients(exec, batch.view(), T{1} / static_cast<T>(batch.valid()), T{0}, grads,
                   losses.data());
    double sum = 0;
    for (T loss : losses) sum += static_cast<double>(loss);
    trajectory.push_back(sum / static_cast<double>(batch.valid()));
    for (int u = 0; u < static_cast<int>(spec.units.size()); ++u) {
      const auto i = static_cast<size_t>(u);
      update_unit<T>(exec, decay_runs(spec, u, adamw.decay), adamw_step(adamw, 1e-2, step, 1.0),
                     grads[i], model->unit(u), m[i].data(), v[i].data());
    }
  }
  // The reference's own float32 run stays within 4e-7 of its float64 run.
  expect_close("adamw_ce_trajectory", trajectory.data(), oracle->values("adamw_ce_trajectory"),
               sizeof(T) == 8 ? 1e-10 : 2e-6, 0);
}

}  // namespace
}  // namespace muster
