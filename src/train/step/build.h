// The first passes: from a model and a layout to the forward and backward operations of every local
// micro-batch, and the grouping of small units' gradients.
//
// Order: micro-batches in rising global index, each forward and then backward in full, so the
// frames of one micro-batch live at a time and every unit's leaves are written in rising order.
// Pure functions.
#pragma once

#include <cstdint>

#include "base/result.h"
#include "train/step/program.h"

namespace muster {

// count, forward, backward_input and backward_weight; one bucket per unit. Errors: those of
// check_layout.
Result<StepProgram> build_step(ModelSpec model, const StepLayout& layout);

// Joins units that are neighbours in the order of completion (last layer first, root last) until
// each bucket has at least `least_bytes`: fewer and larger messages for small models. Adds and
// reduces then act on whole buckets; which numbers are added in which order does not change.
// Runs right after build_step.
StepProgram bucket_gradients(StepProgram program, int64_t least_bytes);

}  // namespace muster
