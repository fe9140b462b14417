// The input is what a broken writer does to its region: words of 8 bytes and where they go (2
// bytes, counted in words), stored between two looks of the supervisor.
#include <cstring>

#include "base/check.h"
#include "base/fuzz.h"
#include "sys/sim_files.h"
#include "trace/reader.h"
#include "trace/recorder.h"
#include "trace/segment.h"

namespace muster {
namespace {

struct Store {
  uint16_t word;
  uint64_t value;
};
constexpr size_t kStoreBytes = 10;

std::string text_of(const std::vector<Store>& stores) {
  std::string text;
  for (const Store& store : stores) {
    text.append(reinterpret_cast<const char*>(&store.word), 2);
    text.append(reinterpret_cast<const char*>(&store.value), 8);
  }
  return text;
}

uint16_t word_of(const TraceRegion& region, const void* place) {
  const auto* base = reinterpret_cast<const char*>(&region.header());
  return static_cast<uint16_t>((static_cast<const char*>(place) - base) / 8);
}

TraceRegion make_region() {
  auto region = TraceRegion::create(
      {.rings = 2, .slots = 8, .names = 8, .name_bytes = 64, .source = TickSource::vdso});
  MUSTER_CHECK(region.ok(), region.error().to_string());
  return *std::move(region);
}

void look(const TraceRegion& region, RegionReader& reader) {
  for (const RingCopy& copy : reader.copy_new())
    if (copy.records.size() > region.slots()) __builtin_trap();
  static_cast<void>(reader.names_from(1));
  static_cast<void>(reader.threads());
  static_cast<void>(region.calibrations());
  static_cast<void>(phase_name(read_progress(region.progress()).phase));
}

}  // namespace

std::vector<std::string> fuzz_seeds() {
  const TraceRegion region = make_region();
  const auto& ring = region.ring(0);
  return {text_of({{word_of(region, &ring.head), 12}, {word_of(region, &ring.tid), ~uint64_t{0}}}),
          text_of({{word_of(region, &region.header().rings_claimed), ~uint64_t{0}},
                   {word_of(region, &region.header().names_used), ~uint64_t{0}},
                   {word_of(region, &region.name_entries()[1]), uint64_t{0xFFFFFFFF} << 32},
                   {word_of(region, region.ring_slots(0)), 7}}),
          text_of({{word_of(region, &region.header().region_bytes), 1},
                   {word_of(region, &region.header().rings), uint64_t{1} << 24},
                   {word_of(region, &ring.head), ~uint64_t{0}},
                   {1024, uint64_t{1} << 63}})};
}

}  // namespace muster

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace muster;
  Recorder recorder(make_region());
  TraceRegion& region = recorder.region();
  SimClock clock;
  SimFiles files(clock);
  auto segment = SegmentWriter::create(files, "a", region);
  MUSTER_CHECK(segment.ok(), segment.error().to_string());
  RegionReader reader(region);
  TraceWriter writer = recorder.attach("main");
  for (uint64_t i = 0; i < 5; ++i) writer.complete(recorder.intern("step"), i, i + 1);
  look(region, reader);
  static_cast<void>(segment->drain().ok());

  const size_t mapped = reinterpret_cast<const char*>(region.ring_slots(1) + region.slots()) -
                        reinterpret_cast<const char*>(&region.header());
  for (size_t at = 0; at + kStoreBytes <= size; at += kStoreBytes) {
    uint16_t word;
    std::memcpy(&word, data + at, 2);
    std::memcpy(reinterpret_cast<char*>(&region.header()) + word * size_t{8} % mapped,
                data + at + 2, 8);
    if (at % (4 * kStoreBytes) == 0) look(region, reader);
  }
  look(region, reader);
  static_cast<void>(segment->drain().ok());
  static_cast<void>(TraceRegion::map(region.fd()).ok());
  const auto text = read_file(files, "a");
  if (!text.ok() || !parse_segment(*text).ok()) __builtin_trap();  // what we wrote can be read
  return 0;
}
