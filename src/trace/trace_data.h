// TraceData: what one process recorded, decoded: names as text, times as CLOCK_MONOTONIC
// nanoseconds. The common ground of every reader (ledger, exporter), whether it came from a live
// region or a segment file. Value type.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "trace/reader.h"
#include "trace/record.h"
#include "trace/ticks.h"

namespace muster {

struct TraceEvent {
  RecordKind kind = RecordKind::instant;
  uint8_t flags = 0;
  uint16_t name = 0;  // index into TraceData::names
  uint32_t ring = 0;
  uint32_t serial = 0;  // begin and end
  int64_t time_ns = 0;
  int64_t duration_ns = 0;  // complete
  uint64_t a = 0, b = 0;
};

struct TraceData {
  int32_t rank = 0;
  int32_t attempt = 0;
  int32_t pid = 0;
  int64_t realtime_offset_ns = 0;  // wall clock = time_ns + this
  int64_t clock_residual_ns = 0;   // how far the calibrations are from a constant rate
  std::vector<std::string> names;  // [0] is "(unnamed)"
  std::vector<RingThread> threads;
  std::vector<TraceEvent> events;  // of one ring in order of writing
  uint64_t overrun = 0;            // records lost because the ring was drained too late
  uint64_t skipped_bytes = 0;      // of a damaged or truncated file

  std::string_view name_of(const TraceEvent& event) const {
    return event.name < names.size() ? std::string_view(names[event.name]) : "?";
  }
};

// Records of one ring, decoded and appended to `data`.
void append_records(TraceData& data, uint32_t ring, const std::vector<Record>& records,
                    const TickScale& scale);

// Everything still in the rings of a region.
TraceData read_region(const TraceRegion& region);

}  // namespace muster
