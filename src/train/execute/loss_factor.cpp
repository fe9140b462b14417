#include "train/execute/loss_factor.h"

namespace muster {

int64_t count_valid(const BatchView& batch) {
  int64_t valid = 0;
  for (int64_t t = 0; t < batch.tokens; ++t) valid += batch.targets[t] >= 0 ? 1 : 0;
  return valid;
}

double loss_factor(int64_t valid_tokens) {
  return valid_tokens > 0 ? 1.0 / static_cast<double>(valid_tokens) : 1.0;
}

}  // namespace muster
