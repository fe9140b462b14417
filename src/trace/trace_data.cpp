#include "trace/trace_data.h"

#include <algorithm>

namespace muster {

void append_records(TraceData& data, uint32_t ring, const std::vector<Record>& records,
                    const TickScale& scale) {
  data.events.reserve(data.events.size() + records.size());
  for (const Record& r : records) {
    TraceEvent e{
        .kind = r.kind(), .flags = r.flags, .name = r.name, .ring = ring, .a = r.a, .b = r.b};
    e.time_ns = scale.monotonic_ns(r.t);
    if (e.kind == RecordKind::complete)
      e.duration_ns =
          std::max<int64_t>(0, scale.monotonic_ns(r.t + r.duration_ticks()) - e.time_ns);
    else
      e.serial = r.v;
    data.events.push_back(e);
  }
}

TraceData read_region(const TraceRegion& region) {
  RegionReader reader(region);
  std::vector<Calibration> calibrations = region.calibrations();
  calibrations.push_back(calibrate(region.source()));
  const TickScale scale(region.source(), std::move(calibrations));

  TraceData data{.rank = region.rank(), .attempt = region.attempt(), .pid = region.pid()};
  data.realtime_offset_ns = scale.realtime_offset_ns();
  data.clock_residual_ns = scale.residual_ns();
  for (const RingCopy& copy : reader.copy_new()) {
    append_records(data, copy.ring, copy.records, scale);
    data.overrun += copy.overrun;
  }
  // Names and threads after the records: a record never refers to a later name.
  data.names = reader.names_from(1);
  data.names.insert(data.names.begin(), "(unnamed)");
  data.threads = reader.threads();
  return data;
}

}  // namespace muster
