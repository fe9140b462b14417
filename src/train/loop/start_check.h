// StartCheck: may a run begin, or go on, with these settings? Asks before the first write what the
// ranks would refuse later, so that a refused start leaves its run directory as it was. Reads
// only; the ranks ask check_continues() again for the checkpoint that they agree on.
//
// Errors: invalid_argument with the setting, both values and the remedy.
#pragma once

#include "ckpt/manifest.h"
#include "ckpt/shard_writer.h"
#include "sys/files.h"
#include "train/loop/warm.h"

namespace muster {

// The settings that decide a run's numbers, as a checkpoint records them.
Numerics numerics_of(const TrainConfig& config);

// Whether a run with `warm` computes on where the checkpoint stopped: the same numerics, seed,
// tokenizer, tensors and data, and not beyond the last step.
Status check_continues(const Manifest& manifest, const Warm& warm);

// The ring of buffers that the settings ask for.
Result<RingOptions> ring_options(const CheckpointSettings& settings);

// All of it: the step fits the memory budget on every rank, and the newest checkpoint of the run
// directory, if there is one, can be continued. Errors: also those of listing checkpoints.
Status check_start(Files& files, const Warm& warm);

}  // namespace muster
