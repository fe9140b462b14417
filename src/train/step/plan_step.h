// plan_step: all passes in their order, validated. What `muster plan` prints and train/execute
// runs.
#pragma once

#include "base/result.h"
#include "base/units.h"
#include "train/step/memory_plan.h"
#include "train/step/program.h"
#include "train/step/train_config.h"

namespace muster {

struct PlannedStep {
  StepProgram program;
  MemoryPlan memory;
};

struct PlanOptions {
  Bytes memory_budget{0};         // for buffers and scratch of a step; 0 = no limit
  Bytes least_bucket{256 << 10};  // gradients smaller than this are joined
};

// Errors: those of check_layout and fit_memory.
Result<PlannedStep> plan_step(ModelSpec model, const StepLayout& layout,
                              const PlanOptions& options);

// The step of one rank of a training run. Errors: also those of make_model_spec.
Result<PlannedStep> plan_step(const TrainConfig& config, int world, Rank rank);

}  // namespace muster
