// Proofs about a finished program. Each returns the first thing that is wrong, as internal: a
// program that fails is a bug of a pass.
//
//  - order: stream order and `after` form no cycle (Kahn), and a reader starts after its writers;
//  - buffers: written before read, released once, untouched afterwards, placed without overlap;
//  - memory: what lives at one time, scratch included, stays within the budget;
//  - leaves: per bucket in rising micro-batch order, added in the tree over lanes and then by
//    rounds, so that each total is the one sum that docs/design/step.md defines;
//  - FLOPs: the operations together make up the model's own count.
// Pure functions.
#pragma once

#include "base/result.h"
#include "base/units.h"
#include "train/step/memory_plan.h"
#include "train/step/program.h"

namespace muster {

Status validate_order(const StepProgram& program);
Status validate_buffers(const StepProgram& program, const MemoryPlan& plan);
Status validate_memory(const MemoryPlan& plan, Bytes budget);  // budget 0 = no limit
Status validate_leaves(const StepProgram& program);
Status validate_flops(const StepProgram& program);

// All of them.
Status validate_step(const StepProgram& program, const MemoryPlan& plan, Bytes budget);

}  // namespace muster
