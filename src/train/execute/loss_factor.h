// How losses are normalised and summed; nobody else divides.
//
// The loss of a step is the sum of its token losses over all micro-batches and ranks, divided by
// the number of valid targets among them, an integer known before the first backward pass. Token
// losses of a micro-batch are added in token order, micro-batches in the balanced tree over lanes
// and rounds in order, all in double.
#pragma once

#include <cstdint>
#include <span>

#include "train/model/block.h"

namespace muster {

// Targets of one micro-batch that count.
int64_t count_valid(const BatchView& batch);

// 1 / valid. A step without a valid target has no loss and no gradient, so its factor only has to
// be finite: 1.
double loss_factor(int64_t valid_tokens);

template <class T>
double sum_token_losses(std::span<const T> losses) {
  double sum = 0;
  for (const T loss : losses) sum += static_cast<double>(loss);
  return sum;
}

}  // namespace muster
