// RegionReader: copies records out of a region whose writer is running, finished or dead, and
// counts what it came too late for. It never blocks the writer.
//
// One reader per region and purpose: each keeps its own place in every ring. Used by one thread.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "trace/region.h"

namespace muster {

// New records of one ring since the last copy.
struct RingCopy {
  uint32_t ring = 0;
  uint64_t first_index = 0;  // of records[0], counted from the ring's start
  uint64_t overrun = 0;      // records between the last copy and first_index, overwritten unread
  std::vector<Record> records;
};

struct RingThread {
  uint32_t ring = 0;
  int32_t tid = 0;
  std::string name;
  bool operator==(const RingThread&) const = default;
};

class RegionReader {
 public:
  explicit RegionReader(const TraceRegion& region);

  // New records of every claimed ring; rings without any are left out.
  std::vector<RingCopy> copy_new();
  // Names 1..n in order of id; a name that does not lie within the table reads as "?".
  std::vector<std::string> names_from(size_t first_id) const;
  std::vector<RingThread> threads() const;

 private:
  uint32_t claimed() const;
  RingCopy copy_ring(uint32_t ring);

  const TraceRegion& region_;
  std::vector<uint64_t> next_;  // per ring
};

}  // namespace muster
