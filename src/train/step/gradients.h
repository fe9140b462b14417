// Passes over the gradients: the balanced tree over micro-batches, the sums over ranks, and the end
// of the step. Pure functions; run in this order after build.h.
#pragma once

#include "train/step/program.h"

namespace muster {

// Inserts the additions of the tree's inner nodes that this rank can do alone, each as soon as both
// halves exist: the accumulator of the left half takes the right one. So a bucket holds at most
// 1 + ceil(log2(lanes of this rank)) leaves and subtree sums at a time, and one more per further
// maximal subtree.
StepProgram accumulate_gradients(StepProgram program);

// Inserts, for each bucket and round, the sum over ranks as soon as this rank's part is complete;
// it runs on the comm stream while the rest of backward goes on. Rounds are added in order. With
// one rank there is nothing to send.
StepProgram reduce_gradients(StepProgram program);

// Appends losses, clip and the units' updates.
StepProgram finish_step(StepProgram program);

}  // namespace muster
