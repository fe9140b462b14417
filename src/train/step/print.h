// A step program for people (a table, one operation a line) and for programs (JSON).
#pragma once

#include <string>

#include "train/step/cost_model.h"
#include "train/step/plan_step.h"

namespace muster {

// Head lines (layout, memory, FLOPs), the table, totals.
std::string step_table(const PlannedStep& step, const StepPrediction& prediction);

// One JSON object: layout, buckets, buffers with their offsets, operations, memory, totals. Times
// are integer nanoseconds.
std::string step_json(const PlannedStep& step, const StepPrediction& prediction);

// Exact model FLOPs of one token, forward and backward, under a causal mask over whole sequences.
double flops_per_token(const StepProgram& program);

}  // namespace muster
