#include "train/step/plan_step.h"

#include "train/step/build.h"
#include "train/step/gradients.h"
#include "train/step/validate.h"

namespace muster {

Result<PlannedStep> plan_step(ModelSpec model, const StepLayout& layout,
                              const PlanOptions& options) {
  MUSTER_TRY(StepProgram program, build_step(std::move(model), layout));
  program = bucket_gradients(std::move(program), options.least_bucket.count);
  program = accumulate_gradients(std::move(program));
  program = reduce_gradients(std::move(program));
  program = finish_step(std::move(program));
  MUSTER_TRY(program, fit_memory(program, options.memory_budget));
  program = release_buffers(std::move(program));
  MemoryPlan memory = plan_memory(program);
  MUSTER_TRY(validate_step(program, memory, options.memory_budget));
  return PlannedStep{std::move(program), std::move(memory)};
}

Result<PlannedStep> plan_step(const TrainConfig& config, int world, Rank rank) {
  MUSTER_TRY(ModelSpec model, make_model_spec(config.model, Real::f32));
  StepLayout layout;
  layout.micro_batches = config.batch.micro_batches_per_step;
  layout.lanes = config.batch.virtual_shards;
  layout.world = world;
  layout.rank = rank;
  layout.work =
      Workload::causal(config.batch.sequences_per_micro_batch, config.data.sequence_length);
  PlanOptions options;
  options.memory_budget = config.train.memory_budget;
  return plan_step(std::move(model), layout, options);
}

}  // namespace muster
