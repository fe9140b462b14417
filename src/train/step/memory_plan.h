// Where each buffer of a step lies: offsets in two arenas that are allocated once and reused by
// every step, placed so that buffers whose lifetimes meet never overlap. Leaves lie in the shared
// arena (memory that peers may read in place), everything else in the local one.
//
// Lifetimes are positions in the list. A buffer that a comm operation uses lives until a comp
// operation has waited for that operation, so memory changes hands on the comp stream alone.
// Pure functions.
#pragma once

#include <cstdint>
#include <vector>

#include "base/result.h"
#include "base/units.h"
#include "train/step/program.h"

namespace muster {

struct Lifetime {
  int first = -1;  // position of the first write
  int last = -1;  // position of the last comp operation that uses it or waits for its last comm use
};
// By buffer; first = -1 for a buffer that nothing uses. Release operations do not count as use.
// The list must end with a comp operation that waits for all comm uses (finish_step).
std::vector<Lifetime> buffer_lifetimes(const StepProgram& program);

inline constexpr int64_t kBufferAlignment = 64;

struct MemoryPlan {
  std::vector<int64_t> offset;  // by buffer, in its arena
  int64_t local_bytes = 0;
  int64_t shared_bytes = 0;
  // The most that lives at one time: no placement can need less.
  int64_t local_sweep = 0;
  int64_t shared_sweep = 0;
  int64_t workspace = 0;  // most scratch of one operation, taken from the arena of the kernels
  int64_t total() const { return local_bytes + shared_bytes + workspace; }
};
bool is_shared(BufferKind kind);
MemoryPlan plan_memory(const StepProgram& program);

// Drops frames until the plan fits `budget` (0 = no limit): all cheap parts in falling order of
// bytes, then costly parts by bytes gained per repeated FLOP; equal ones from the first layer on,
// whose frames wait longest. A dropped part is memory of the forward operation alone and is
// restored just before the block's backward_input. Runs after finish_step.
// Errors: no_space with the least that would do.
Result<StepProgram> fit_memory(const StepProgram& program, Bytes budget);

// Appends to each last use a release of the buffers that die there. The last pass.
StepProgram release_buffers(StepProgram program);

}  // namespace muster
