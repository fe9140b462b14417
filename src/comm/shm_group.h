// The shared-memory backend: ranks on one host, as processes or as threads. Every rank reduces its
// slice by reading its peers' buffers in place and writes the result into all of theirs; buffers
// outside the segment pass through staging areas.
//
// Waiting: a spin of a few microseconds, then the futex of the rank waited for. A peer process that
// dies is noticed through its pidfd within 100 ms even if nobody aborts the group.
#pragma once

#include <memory>

#include "base/clock.h"
#include "comm/communicator.h"
#include "comm/shm_segment.h"

namespace muster {

// Joins as `rank` and waits until all ranks have. `clock` must outlive the group. Errors: timeout
// names the ranks that did not come; already_exists if that rank joined before (a segment serves
// one group once).
Result<std::unique_ptr<Communicator>> join_shm_group(const Clock& clock,
                                                     std::shared_ptr<ShmSegment> segment, Rank rank,
                                                     const GroupOptions& options);

// A group of this process alone. Nothing ever waits; shared_alloc gives plain memory of the
// segment.
Result<std::unique_ptr<Communicator>> solo_group(const Clock& clock, const GroupOptions& options);

}  // namespace muster
