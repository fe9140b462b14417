// One collective as the backends see it. Filled by Communicator, run by a backend; slots are
// reused, so the vectors keep their memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "comm/combine.h"

namespace muster {

struct Operation {
  enum class Kind : uint8_t {
    barrier,
    reduce_everywhere,  // all_reduce: every rank gets all elements
    reduce_slices,      // reduce_scatter: every rank gets its slice
    gather,             // all_gather and broadcast: every rank gives its slice, gets all
    leave,              // the end of a group; never in a queue
  };

  Kind kind = Kind::barrier;
  ElementType type = ElementType::bytes;
  ReduceOp op = ReduceOp::sum;
  uint64_t sequence = 0;                // 1, 2, … in the order of submission
  int64_t count = 0;                    // elements of a part, or of what is gathered
  int64_t leaves = 0;                   // of a reduction
  std::vector<const std::byte*> parts;  // of this rank; count elements each
  std::vector<int64_t> bounds;          // [world + 1] elements: rank r's slice
  const std::byte* in = nullptr;        // gather: this rank's slice
  std::byte* out = nullptr;

  bool reduces() const { return kind == Kind::reduce_everywhere || kind == Kind::reduce_slices; }
  size_t element_bytes() const { return size_of(type); }
  int64_t slice_begin(int rank) const { return bounds[static_cast<size_t>(rank)]; }
  int64_t slice_size(int rank) const {
    return bounds[static_cast<size_t>(rank) + 1] - bounds[static_cast<size_t>(rank)];
  }
  int64_t largest_slice() const;
};

// What must be equal on all ranks, small enough to travel with every operation.
struct Fingerprint {
  uint64_t sequence = 0;
  uint32_t kind = 0, type = 0, op = 0, pad = 0;
  int64_t count = 0, leaves = 0;
  uint64_t bounds_hash = 0;
  bool operator==(const Fingerprint&) const = default;
};
Fingerprint fingerprint(const Operation& operation);
// "all_reduce #12 of 4096 f32 over 8 leaves"
std::string describe(const Fingerprint& fingerprint);
std::string describe(const Operation& operation);
// Both sides of a difference.
std::string describe_difference(int rank, const Fingerprint& mine, int peer,
                                const Fingerprint& theirs);

}  // namespace muster
