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
  MUSTER_TRY(program, fit_memory(std::move(program), options.memory_budget));
  program = release_buffers(std::move(program));
  MemoryPlan memory = plan_memory(program);
  MUSTER_TRY(validate_step(program, memory, options.memory_budget));
  return PlannedStep{std::move(program), std::move(memory)};
}

}  // namespace muster
