// plan_step: all passes in their order, validated. What `muster plan` prints and train/execute
// runs.
#pragma once

#include "base/result.h"
#include "base/units.h"
#include "train/step/memory_plan.h"
#include "train/step/program.h"

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

}  // namespace muster
