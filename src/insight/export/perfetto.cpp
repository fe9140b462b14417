// Field numbers are those of Perfetto's trace_packet.proto, track_event.proto,
// track_descriptor.proto, interned_data.proto and clock_snapshot.proto.
#include "insight/export/perfetto.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <unordered_map>

#include "insight/export/lanes.h"
#include "insight/export/protobuf_writer.h"

namespace muster {
namespace {

namespace packet {
constexpr uint32_t kClockSnapshot = 6, kTimestamp = 8, kSequenceId = 10, kTrackEvent = 11,
                   kInternedData = 12, kSequenceFlags = 13, kTimestampClock = 58, kDefaults = 59,
                   kTrackDescriptor = 60, kFirstOnSequence = 87;
constexpr uint64_t kStateCleared = 1, kNeedsState = 2;
}  // namespace packet
namespace track_event {
constexpr uint32_t kAnnotations = 4, kType = 9, kNameIid = 10, kTrackUuid = 11, kName = 23,
                   kCounterValue = 30, kDoubleCounterValue = 44;
constexpr uint64_t kBegin = 1, kEnd = 2, kInstant = 3, kCounter = 4;
}  // namespace track_event
namespace annotation {
constexpr uint32_t kUint = 3, kText = 6, kName = 10;
}
namespace track {
constexpr uint32_t kUuid = 1, kName = 2, kProcess = 3, kThread = 4, kParent = 5, kCounter = 8;
}
constexpr uint64_t kClockRealtime = 1, kClockMonotonic = 3;
constexpr uint32_t kTracePacket = 1;  // of Trace

uint64_t unsigned_time(int64_t ns) {
  return static_cast<uint64_t>(std::max<int64_t>(0, ns));
}

// Appends packets of one sequence.
class Sequence {
 public:
  Sequence(std::string& out, uint32_t id) : out_(out), id_(id) {
    ProtobufWriter defaults, p;
    defaults.uint(packet::kTimestampClock, kClockMonotonic);
    p.uint(packet::kFirstOnSequence, 1);
    p.uint(packet::kSequenceFlags, packet::kStateCleared);
    p.message(packet::kDefaults, defaults);
    finish(p);
  }

  void descriptor(const ProtobufWriter& d) {
    ProtobufWriter p;
    p.message(packet::kTrackDescriptor, d);
    finish(p);
  }
  void interned(const ProtobufWriter& data) {
    ProtobufWriter p;
    p.uint(packet::kSequenceFlags, packet::kNeedsState);
    p.message(packet::kInternedData, data);
    finish(p);
  }
  void event(int64_t time_ns, const ProtobufWriter& e) {
    ProtobufWriter p;
    p.uint(packet::kTimestamp, unsigned_time(time_ns));
    p.uint(packet::kSequenceFlags, packet::kNeedsState);
    p.message(packet::kTrackEvent, e);
    finish(p);
  }
  void clocks(int64_t monotonic_ns, int64_t realtime_offset_ns) {
    ProtobufWriter snapshot, p;
    for (const auto& [id, time] : {std::pair{kClockMonotonic, monotonic_ns},
                                   std::pair{kClockRealtime, monotonic_ns + realtime_offset_ns}}) {
      ProtobufWriter clock;
      clock.uint(1, id);
      clock.uint(2, unsigned_time(time));
      snapshot.message(1, clock);
    }
    snapshot.uint(2, kClockMonotonic);  // primary_trace_clock
    p.uint(packet::kTimestamp, unsigned_time(monotonic_ns));
    p.message(packet::kClockSnapshot, snapshot);
    finish(p);
  }

 private:
  void finish(ProtobufWriter& p) {
    p.uint(packet::kSequenceId, id_);
    ProtobufWriter trace;
    trace.message(kTracePacket, p);
    out_ += trace.bytes();
  }
  std::string& out_;
  uint32_t id_;
};

void annotate(ProtobufWriter& event, std::string_view name, uint64_t value) {
  ProtobufWriter a;
  a.text(annotation::kName, name);
  a.uint(annotation::kUint, value);
  event.message(track_event::kAnnotations, a);
}
void annotate(ProtobufWriter& event, std::string_view name, std::string_view value) {
  ProtobufWriter a;
  a.text(annotation::kName, name);
  a.text(annotation::kText, value);
  event.message(track_event::kAnnotations, a);
}

// One process of the run as one sequence.
class ProcessExport {
 public:
  ProcessExport(std::string& out, uint32_t number, const TraceData& trace, PerfettoCounts& counts)
      : trace_(trace),
        counts_(counts),
        sequence_(out, number + 1),
        base_uuid_(uint64_t{number} << 32),
        // Perfetto joins processes of one pid; a process that never attached gets a number no real
        // one has.
        pid_(trace.pid > 0 ? trace.pid : static_cast<int32_t>(1'000'000'000 + number)) {}

  void write() {
    describe_process();
    intern_names();
    std::map<uint32_t, std::vector<const TraceEvent*>> rings;
    for (const TraceEvent& e : trace_.events) {
      rings[e.ring].push_back(&e);
      last_ns_ = std::max(last_ns_, e.time_ns + e.duration_ns);
    }
    for (const auto& [ring, events] : rings) write_ring(ring, events);
  }

 private:
  uint64_t thread_uuid(uint32_t ring) const { return base_uuid_ | 1u << 24 | ring; }
  uint64_t lane_uuid(uint32_t ring, size_t lane) const {
    return lane == 0 ? thread_uuid(ring) : base_uuid_ | uint64_t{2} << 28 | lane << 12 | ring;
  }
  uint64_t counter_uuid(uint16_t name) const { return base_uuid_ | 1u << 30 | name; }

  void describe_process() {
    ProtobufWriter process, d;
    process.integer(1, pid_);
    process.text(6, fmt::format("rank {}, attempt {}", trace_.rank, trace_.attempt));
    d.uint(track::kUuid, base_uuid_);
    d.message(track::kProcess, process);
    sequence_.descriptor(d);
  }

  void intern_names() {
    ProtobufWriter data;
    for (size_t id = 0; id < trace_.names.size(); ++id) {
      ProtobufWriter name;
      name.uint(1, id + 1);  // 0 means "none" to Perfetto
      name.text(2, trace_.names[id]);
      data.message(2, name);
    }
    if (trace_.names.empty()) {
      ProtobufWriter name;
      name.uint(1, 1);
      name.text(2, "(unnamed)");
      data.message(2, name);
    }
    sequence_.interned(data);
  }

  std::string thread_name(uint32_t ring) const {
    for (const RingThread& t : trace_.threads)
      if (t.ring == ring && !t.name.empty()) return t.name;
    return fmt::format("ring {}", ring);
  }

  void describe_lane(uint32_t ring, size_t lane) {
    ProtobufWriter d;
    d.uint(track::kUuid, lane_uuid(ring, lane));
    if (lane == 0) {
      const auto known = std::find_if(trace_.threads.begin(), trace_.threads.end(),
                                      [&](const RingThread& t) { return t.ring == ring; });
      ProtobufWriter thread;
      thread.integer(1, pid_);
      thread.integer(2, known != trace_.threads.end() && known->tid > 0
                            ? known->tid
                            : 2'000'000'000 + static_cast<int32_t>(ring));
      thread.text(5, thread_name(ring));
      d.uint(track::kParent, base_uuid_);
      d.message(track::kThread, thread);
    } else {
      d.text(track::kName, fmt::format("{} ({})", thread_name(ring), lane + 1));
      d.uint(track::kParent, base_uuid_);
    }
    sequence_.descriptor(d);
  }

  uint64_t name_iid(const TraceEvent& e) const {
    return e.name < std::max<size_t>(1, trace_.names.size()) ? uint64_t{e.name} + 1 : 1;
  }

  // Slices of a ring: complete records, and begins with the end of the same serial or without.
  std::vector<Slice> slices_of(const std::vector<const TraceEvent*>& events,
                               std::vector<bool>& unfinished) {
    std::vector<Slice> slices;
    std::unordered_map<uint32_t, size_t> open;
    unfinished.assign(events.size(), false);
    for (size_t i = 0; i < events.size(); ++i) {
      const TraceEvent& e = *events[i];
      if (e.kind == RecordKind::complete) {
        slices.push_back({e.time_ns, e.time_ns + e.duration_ns, i});
      } else if (e.kind == RecordKind::begin) {
        open[e.serial] = slices.size();
        slices.push_back({e.time_ns, last_ns_, i});
        unfinished[i] = true;
      } else if (e.kind == RecordKind::end) {
        const auto found = open.find(e.serial);
        if (found == open.end()) {
          ++counts_.orphan_ends;
          continue;
        }
        slices[found->second].end_ns = e.time_ns;
        unfinished[slices[found->second].source] = false;
        open.erase(found);
      }
    }
    return slices;
  }

  void write_ring(uint32_t ring, const std::vector<const TraceEvent*>& events) {
    std::vector<bool> unfinished;
    const auto lanes = lay_on_lanes(slices_of(events, unfinished));
    describe_lane(ring, 0);
    for (size_t lane = 0; lane < lanes.size(); ++lane) {
      if (lane > 0) describe_lane(ring, lane);
      for (const SliceEdge& edge : lanes[lane])
        write_edge(lane_uuid(ring, lane), edge, *events[edge.source], unfinished[edge.source]);
    }
    for (const TraceEvent* e : events) {
      if (e->kind == RecordKind::instant || e->kind == RecordKind::step)
        write_instant(thread_uuid(ring), *e);
      if (e->kind == RecordKind::counter) write_counter(*e);
    }
  }

  void write_edge(uint64_t uuid, const SliceEdge& edge, const TraceEvent& e, bool unfinished) {
    ProtobufWriter w;
    w.uint(track_event::kType, edge.is_begin ? track_event::kBegin : track_event::kEnd);
    w.uint(track_event::kTrackUuid, uuid);
    if (edge.is_begin) {
      w.uint(track_event::kNameIid, name_iid(e));
      write_values(w, e);
      if (unfinished) annotate(w, "unfinished", std::string_view("the end was never recorded"));
      ++counts_.slices;
      counts_.unfinished += unfinished ? 1 : 0;
    }
    sequence_.event(edge.time_ns, w);
  }

  static void write_values(ProtobufWriter& w, const TraceEvent& e) {
    if (e.a != 0) annotate(w, "a", e.a);
    if (e.b != 0) annotate(w, "b", e.b);
  }

  void write_instant(uint64_t uuid, const TraceEvent& e) {
    ProtobufWriter w;
    w.uint(track_event::kType, track_event::kInstant);
    w.uint(track_event::kTrackUuid, uuid);
    w.uint(track_event::kNameIid, name_iid(e));
    if (e.kind == RecordKind::step)
      annotate(w, "step", e.a);
    else
      write_values(w, e);
    sequence_.event(e.time_ns, w);
    ++counts_.instants;
  }

  void write_counter(const TraceEvent& e) {
    const uint64_t uuid = counter_uuid(e.name);
    if (counters_.emplace(e.name, true).second) {
      ProtobufWriter d;
      d.uint(track::kUuid, uuid);
      d.text(track::kName, trace_.name_of(e));
      d.uint(track::kParent, base_uuid_);
      d.message(track::kCounter, ProtobufWriter());
      sequence_.descriptor(d);
    }
    ProtobufWriter w;
    w.uint(track_event::kType, track_event::kCounter);
    w.uint(track_event::kTrackUuid, uuid);
    if (e.flags & kFlagReal)
      w.real(track_event::kDoubleCounterValue, std::bit_cast<double>(e.a));
    else
      w.integer(track_event::kCounterValue, static_cast<int64_t>(e.a));
    sequence_.event(e.time_ns, w);
    ++counts_.counters;
  }

  const TraceData& trace_;
  PerfettoCounts& counts_;
  Sequence sequence_;
  uint64_t base_uuid_;
  int32_t pid_;
  int64_t last_ns_ = 0;
  std::map<uint16_t, bool> counters_;
};

void write_events(Sequence& sequence, const std::vector<PerfettoEvent>& events,
                  PerfettoCounts& counts) {
  constexpr uint64_t kSupervisorUuid = 1;
  ProtobufWriter d;
  d.uint(track::kUuid, kSupervisorUuid);
  d.text(track::kName, "supervisor");
  sequence.descriptor(d);
  for (const PerfettoEvent& e : events) {
    ProtobufWriter w;
    w.uint(track_event::kType, track_event::kInstant);
    w.uint(track_event::kTrackUuid, kSupervisorUuid);
    w.text(track_event::kName, e.name);
    for (const auto& [name, value] : e.notes) annotate(w, name, std::string_view(value));
    sequence.event(e.time_ns, w);
    ++counts.instants;
  }
}

}  // namespace

PerfettoTrace perfetto_trace(const PerfettoInput& input) {
  PerfettoTrace trace;
  int64_t first_ns = INT64_MAX;
  for (const PerfettoEvent& e : input.events) first_ns = std::min(first_ns, e.time_ns);
  for (const TraceData& p : input.processes)
    for (const TraceEvent& e : p.events) first_ns = std::min(first_ns, e.time_ns);

  Sequence supervisor(trace.bytes, 1);
  supervisor.clocks(first_ns == INT64_MAX ? 0 : first_ns, input.realtime_offset_ns);
  write_events(supervisor, input.events, trace.counts);
  uint32_t number = 1;
  for (const TraceData& p : input.processes)
    ProcessExport(trace.bytes, number++, p, trace.counts).write();
  return trace;
}

}  // namespace muster
