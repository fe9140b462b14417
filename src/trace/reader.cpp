#include "trace/reader.h"

#include <algorithm>
#include <bit>
#include <cstring>

namespace muster {
namespace {

Record load(const layout::Slot& slot) {
  const uint64_t words[4] = {
      slot.word[0].load(std::memory_order_acquire), slot.word[1].load(std::memory_order_acquire),
      slot.word[2].load(std::memory_order_acquire), slot.word[3].load(std::memory_order_acquire)};
  Record record;
  std::memcpy(&record, words, sizeof record);
  return record;
}

}  // namespace

RegionReader::RegionReader(const TraceRegion& region) : region_(region), next_(region.rings(), 0) {}

uint32_t RegionReader::claimed() const {
  return std::min(region_.header().rings_claimed.load(std::memory_order_acquire), region_.rings());
}

RingCopy RegionReader::copy_ring(uint32_t ring) {
  const std::atomic<uint64_t>& head = region_.ring(ring).head;
  const layout::Slot* slots = region_.ring_slots(ring);
  const uint64_t count = region_.slots();
  const uint64_t from = next_[ring];
  const uint64_t h = head.load(std::memory_order_acquire);

  RingCopy copy{.ring = ring, .first_index = from};
  if (h <= from) return copy;  // nothing new (or a head that went back: a broken writer)
  copy.first_index = std::max(from, h > count ? h - count : 0);
  copy.records.reserve(h - copy.first_index);
  for (uint64_t i = copy.first_index; i < h; ++i) copy.records.push_back(load(slots[i % count]));

  // Record i is whole unless the writer has begun record i + slots, which it has only if i + slots
  // <= head.
  const uint64_t later = head.load(std::memory_order_relaxed);
  const uint64_t safe = later >= count ? later - count + 1 : 0;
  if (safe > copy.first_index) {
    const uint64_t lost = std::min<uint64_t>(safe - copy.first_index, copy.records.size());
    copy.records.erase(copy.records.begin(), copy.records.begin() + static_cast<long>(lost));
    copy.first_index += lost;
  }
  copy.overrun = copy.first_index - from;
  next_[ring] = h;
  return copy;
}

std::vector<RingCopy> RegionReader::copy_new() {
  std::vector<RingCopy> copies;
  for (uint32_t ring = 0; ring < claimed(); ++ring) {
    RingCopy copy = copy_ring(ring);
    if (!copy.records.empty() || copy.overrun > 0) copies.push_back(std::move(copy));
  }
  return copies;
}

std::vector<std::string> RegionReader::names_from(size_t first_id) const {
  const uint32_t used =
      std::min(region_.header().names_used.load(std::memory_order_acquire), region_.names() - 1);
  std::vector<std::string> names;
  for (size_t id = first_id; id <= used; ++id) {
    const layout::NameEntry e = region_.name_entries()[id];
    const bool inside = uint64_t{e.offset} + e.length <= region_.name_bytes();
    names.push_back(inside ? std::string(region_.name_text() + e.offset, e.length) : "?");
  }
  return names;
}

std::vector<RingThread> RegionReader::threads() const {
  std::vector<RingThread> threads;
  for (uint32_t ring = 0; ring < claimed(); ++ring) {
    const layout::RingHeader& h = region_.ring(ring);
    const size_t length =
        std::min<size_t>(h.thread_name_length.load(std::memory_order_acquire), kThreadNameBytes);
    threads.push_back(
        {ring, h.tid.load(std::memory_order_relaxed), std::string(h.thread_name, length)});
  }
  return threads;
}

}  // namespace muster
