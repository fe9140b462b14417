// The input is a trace segment, as a writer that died may have left it.
#include <string_view>

#include "base/check.h"
#include "base/fuzz.h"
#include "sys/sim_files.h"
#include "trace/recorder.h"
#include "trace/segment.h"

namespace muster {

std::vector<std::string> fuzz_seeds() {
  auto region = TraceRegion::create(
      {.rank = 1, .attempt = 2, .rings = 4, .slots = 64, .source = TickSource::vdso});
  MUSTER_CHECK(region.ok(), region.error().to_string());
  Recorder recorder(*std::move(region));
  SimClock clock;
  SimFiles files(clock);
  auto writer = SegmentWriter::create(files, "a.seg", recorder.region());
  MUSTER_CHECK(writer.ok(), writer.error().to_string());
  TraceWriter w = recorder.attach("main");
  for (uint64_t i = 0; i < 40; ++i) {
    w.complete(recorder.intern(i % 3 == 0 ? "step" : "wait"), i, i + 5, i, 7 * i);
    if (i % 10 == 0) MUSTER_CHECK(writer->drain().ok());
  }
  MUSTER_CHECK(writer->drain().ok());
  return {read_file(files, "a.seg").value()};
}

}  // namespace muster

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static_cast<void>(muster::parse_segment({reinterpret_cast<const char*>(data), size}).ok());
  return 0;
}
