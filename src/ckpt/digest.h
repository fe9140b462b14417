// Digest: one hash of all state that decides how a run goes on, whatever its layout: XXH3-128 over,
// for each parameter and moment in the order of names, (name, dtype, shape, row-major bytes), then
// step, schedule step, loss scale, RNG seed and step, and loader cursor. World size, threads,
// paths, uuids and times are not in it, so runs laid out differently can be compared.
//
// Encoding: a text is its length (64 bits, little-endian) and its bytes; a number is 64 bits; a
// shape is its length and its extents; the loss scale is its IEEE bits.
#pragma once

#include "base/hash.h"
#include "base/result.h"
#include "ckpt/reader.h"
#include "ckpt/state.h"

namespace muster {

// Bug if a tensor is not held whole.
Hash128 digest_of(const State& state);
// The same from disk, in blocks of 32 MiB. Errors: those of CheckpointReader::load.
Result<Hash128> digest_of(CheckpointReader& reader);

}  // namespace muster
