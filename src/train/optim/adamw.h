// AdamW over flat unit buffers: decoupled weight decay (Loshchilov & Hutter), decay for matrices
// and embeddings, none for norms and biases unless asked. A unit is updated by one kernel pass per
// run of neighbouring parameters with the same decay; gaps are never touched. Every operation is
// elementwise, so any cut of the buffers gives the same bits.
#pragma once

#include <vector>

#include "train/ops/kernels.h"
#include "train/spec/block_spec.h"

namespace muster {

enum class DecayPolicy : uint8_t { matrices, all };

struct AdamW {
  double beta1 = 0.9, beta2 = 0.95, eps = 1e-8, weight_decay = 0.1;
  DecayPolicy decay = DecayPolicy::matrices;
};
// Errors: invalid_argument names the field.
Status validate(const AdamW& adamw);

// A run of elements [begin, end) of a unit's buffer that share the decay.
struct DecayRun {
  int64_t begin = 0, end = 0;
  bool decays = false;
};
std::vector<DecayRun> decay_runs(const ModelSpec& spec, int unit, DecayPolicy policy);

// What one step needs beside the buffers. `updates_done` counts the updates made before this one
// (skipped steps do not count); the bias corrections 1 - beta^(updates_done + 1) are computed by
// strict mathematics.
ops::AdamWStep adamw_step(const AdamW& adamw, double lr, int64_t updates_done,
                          double gradient_scale);

// All buffers are the unit's: gradient, parameter, first and second moment (zero before the first
// update).
template <class T>
void update_unit(ops::Exec& exec, std::span<const DecayRun> runs, ops::AdamWStep step,
                 const T* gradient, T* parameter, T* m, T* v);

}  // namespace muster
