// Perfetto: writes recorded processes and the supervisor's events as a Perfetto trace (protobuf,
// readable by ui.perfetto.dev and trace_processor). Pure: bytes out, no schema files.
//
// Tracks: a process per (rank, attempt) named "rank R, attempt A", a thread per ring, extra tracks
// for slices that cross others, one per counter, and "supervisor" for events. Times stay
// CLOCK_MONOTONIC; a clock snapshot ties them to the wall clock. Each process is a packet sequence
// of its own with interned names. Step marks are instants named "step" with their number.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "trace/trace_data.h"

namespace muster {

struct PerfettoEvent {
  int64_t time_ns = 0;
  std::string name;
  std::vector<std::pair<std::string, std::string>> notes;  // shown with the event
};

struct PerfettoInput {
  const std::vector<TraceData>& processes;
  const std::vector<PerfettoEvent>& events;
  int64_t realtime_offset_ns = 0;  // wall clock - monotonic clock
};

struct PerfettoCounts {
  uint64_t slices = 0, instants = 0, counters = 0;
  uint64_t unfinished =
      0;  // slices among them whose end was never recorded: cut at the last record
  uint64_t orphan_ends = 0;  // ends whose begin was overwritten: not written
};

struct PerfettoTrace {
  std::string bytes;
  PerfettoCounts counts;
};
PerfettoTrace perfetto_trace(const PerfettoInput& input);

}  // namespace muster
