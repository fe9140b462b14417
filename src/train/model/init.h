// Initial parameters: element i of parameter P under seed S is a pure function of (S, name of P,
// i), so it does not depend on layout, order or threads. normal(0, std) by Box and Muller over
// Philox in strict mathematics, computed in double and rounded once; norms 1, biases 0. The
// standard deviations are those of the Param table: the config's initializer_range, divided by
// sqrt(2 layers) for the two projections that write to the residual stream (GPT-2).
#pragma once

#include <cstdint>

#include "sys/thread_team.h"
#include "train/spec/block_spec.h"

namespace muster {

// Elements [begin, end) of `param`, written to out[0 … end - begin).
template <class T>
void init_elements(const Param& param, uint64_t seed, int64_t begin, int64_t end, T* out);

// The whole buffer of a unit, gaps as zeros.
template <class T>
void init_unit(const ModelSpec& spec, int unit, uint64_t seed, ThreadTeam& team, T* buffer);

}  // namespace muster
