// Table of rotary positions (RoFormer, Su et al.; half-split pairs as in Llama): row p holds cos(p
// w_i) for i < c/2, then sin(p w_i), with w_i = theta^(-2 i / c). Computed in double by strict
// mathematics, rounded once, so that its bits are the same on every machine.
#pragma once

#include <vector>

#include "train/spec/model_config.h"

namespace muster {

// [positions, head_dim]; empty for gpt2, which learns its positions.
template <class T>
std::vector<T> rope_table(const ModelConfig& config, int64_t positions);

}  // namespace muster
