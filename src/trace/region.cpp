#include "trace/region.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <bit>
#include <cerrno>
#include <new>
#include <utility>

#include "base/check.h"
#include "sys/memfd.h"

namespace muster {
namespace {

constexpr uint64_t kMagic = 0x3130454341525453;  // "STRACE01" in memory order
constexpr uint32_t kVersion = 1;
constexpr size_t kPage = 4096;
constexpr size_t kProgressOffset = kPage;
constexpr size_t kCalibrationOffset = 2 * kPage;
constexpr size_t kNamesOffset = 4 * kPage;
static_assert(sizeof(layout::Header) <= kPage);
static_assert(sizeof(layout::Calibrations) <= kNamesOffset - kCalibrationOffset);
static_assert(sizeof(layout::RingHeader) <= kPage);

size_t pages(size_t bytes) {
  return (bytes + kPage - 1) / kPage * kPage;
}
size_t text_offset(uint32_t names) {
  return kNamesOffset + pages(size_t{names} * sizeof(layout::NameEntry));
}
size_t rings_offset(uint32_t names, uint32_t name_bytes) {
  return text_offset(names) + pages(name_bytes);
}
size_t ring_bytes(uint32_t slots) {
  return kPage + pages(size_t{slots} * sizeof(Record));
}
size_t total_bytes(uint32_t names, uint32_t name_bytes, uint32_t rings, uint32_t slots) {
  return rings_offset(names, name_bytes) + rings * ring_bytes(slots);
}

bool sizes_valid(uint32_t names, uint32_t name_bytes, uint32_t rings, uint32_t slots) {
  return names >= 2 && names <= 65'536 && name_bytes >= 1 && name_bytes <= (64u << 20) &&
         rings >= 1 && rings <= 4096 && slots >= 2 && slots <= (1u << 24) &&
         std::has_single_bit(slots);
}

}  // namespace

Result<TraceRegion> TraceRegion::create(const TraceRegionOptions& o) {
  if (!sizes_valid(o.names, o.name_bytes, o.rings, o.slots))
    return Error(
        Code::invalid_argument,
        fmt::format("trace region: {} rings (1-4096) of {} slots (a power of two, 2-2^24), {} "
                    "names (2-65536) in {} bytes (1-64 MiB) is out of range",
                    o.rings, o.slots, o.names, o.name_bytes));
  TraceRegion region;
  region.bytes_ = total_bytes(o.names, o.name_bytes, o.rings, o.slots);
  // Sealed: nobody can shrink it under a reader's feet.
  MUSTER_TRY(OwnedFd memory, make_memfd("muster-trace", static_cast<int64_t>(region.bytes_))
                                 .context("memory of a trace region"));
  region.fd_ = memory.release();
  void* base = mmap(nullptr, region.bytes_, PROT_READ | PROT_WRITE, MAP_SHARED, region.fd_, 0);
  if (base == MAP_FAILED) return errno_error(errno, "mapping a trace region");
  region.base_ = static_cast<std::byte*>(base);

  auto* header = new (base) layout::Header{};
  header->version = kVersion;
  header->tick_source = static_cast<uint32_t>(o.source);
  header->region_bytes = region.bytes_;
  header->rank = o.rank;
  header->attempt = o.attempt;
  header->rings = o.rings;
  header->slots = o.slots;
  header->names = o.names;
  header->name_bytes = o.name_bytes;
  header->magic = kMagic;
  region.adopt_sizes(*header);
  auto* page = new (region.base_ + kProgressOffset) ProgressPage{};
  page->agent.tier_mask.store(0b0011, std::memory_order_relaxed);
  region.add_calibration(calibrate(o.source));
  return region;
}

Result<TraceRegion> TraceRegion::map(int fd) {
  struct stat st;
  if (fstat(fd, &st) != 0)
    return errno_error(errno, fmt::format("trace region on descriptor {}", fd));
  const size_t file_bytes = static_cast<size_t>(st.st_size);
  if (file_bytes < kNamesOffset)
    return Error(Code::corrupt,
                 fmt::format("descriptor {} is no trace region: {} bytes, the smallest "
                             "has more than {}",
                             fd, file_bytes, kNamesOffset));
  TraceRegion region;
  region.fd_ = fcntl(fd, F_DUPFD_CLOEXEC, 3);
  if (region.fd_ < 0) return errno_error(errno, "duplicating the descriptor of a trace region");
  void* base = mmap(nullptr, file_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, region.fd_, 0);
  if (base == MAP_FAILED) return errno_error(errno, "mapping a trace region");
  region.base_ = static_cast<std::byte*>(base);
  region.bytes_ = file_bytes;

  const layout::Header& h = region.header();
  if (h.magic != kMagic || h.version != kVersion)
    return Error(
        Code::corrupt,
        fmt::format("descriptor {} is no trace region of version {}: magic {:#x}, version {}", fd,
                    kVersion, h.magic, h.version));
  region.adopt_sizes(h);
  const bool fits =
      sizes_valid(region.names_, region.name_bytes_, region.rings_, region.slots_) &&
      total_bytes(region.names_, region.name_bytes_, region.rings_, region.slots_) <= file_bytes;
  const bool known_source = region.source_ == TickSource::vdso || region.source_ == TickSource::tsc;
  if (!fits || !known_source)
    return Error(
        Code::corrupt,
        fmt::format("trace region on descriptor {} describes {} rings of {} slots and {} names "
                    "that do not fit its {} bytes",
                    fd, region.rings_, region.slots_, region.names_, file_bytes));
  return region;
}

void TraceRegion::adopt_sizes(const layout::Header& h) {
  rank_ = h.rank;
  attempt_ = h.attempt;
  source_ = static_cast<TickSource>(h.tick_source);
  rings_ = h.rings;
  slots_ = h.slots;
  names_ = h.names;
  name_bytes_ = h.name_bytes;
}

TraceRegion::~TraceRegion() {
  if (base_ != nullptr) munmap(base_, bytes_);
  if (fd_ >= 0) close(fd_);
}

TraceRegion::TraceRegion(TraceRegion&& other) noexcept {
  *this = std::move(other);
}

TraceRegion& TraceRegion::operator=(TraceRegion&& other) noexcept {
  std::swap(fd_, other.fd_);
  std::swap(base_, other.base_);
  std::swap(bytes_, other.bytes_);
  std::swap(rank_, other.rank_);
  std::swap(attempt_, other.attempt_);
  std::swap(source_, other.source_);
  std::swap(rings_, other.rings_);
  std::swap(slots_, other.slots_);
  std::swap(names_, other.names_);
  std::swap(name_bytes_, other.name_bytes_);
  return *this;
}

ProgressPage& TraceRegion::progress() const {
  return *reinterpret_cast<ProgressPage*>(base_ + kProgressOffset);
}

layout::Calibrations& TraceRegion::calibration_table() const {
  return *reinterpret_cast<layout::Calibrations*>(base_ + kCalibrationOffset);
}

void TraceRegion::add_calibration(const Calibration& c) {
  layout::Calibrations& table = calibration_table();
  const uint64_t i = table.count.load(std::memory_order_relaxed);
  layout::Calibrations::Slot& slot = table.slots[i % kCalibrationSlots];
  slot.ticks.store(c.ticks, std::memory_order_release);
  slot.monotonic_ns.store(c.monotonic_ns, std::memory_order_release);
  slot.realtime_ns.store(c.realtime_ns, std::memory_order_release);
  table.count.store(i + 1, std::memory_order_release);
}

std::vector<Calibration> TraceRegion::calibrations() const {
  const layout::Calibrations& table = calibration_table();
  const uint64_t count = table.count.load(std::memory_order_acquire);
  const uint64_t first = count > kCalibrationSlots ? count - kCalibrationSlots : 0;
  std::vector<Calibration> out;
  for (uint64_t i = first; i < count; ++i) {
    const layout::Calibrations::Slot& slot = table.slots[i % kCalibrationSlots];
    out.push_back({slot.ticks.load(std::memory_order_acquire),
                   slot.monotonic_ns.load(std::memory_order_acquire),
                   slot.realtime_ns.load(std::memory_order_acquire)});
  }
  // The same rule as for records: what the writer may have touched meanwhile is dropped.
  const uint64_t now = table.count.load(std::memory_order_relaxed);
  const uint64_t safe = now >= kCalibrationSlots ? now - kCalibrationSlots + 1 : 0;
  if (safe > first)
    out.erase(out.begin(),
              out.begin() + static_cast<long>(std::min<uint64_t>(safe - first, out.size())));
  return out;
}

layout::NameEntry* TraceRegion::name_entries() const {
  return reinterpret_cast<layout::NameEntry*>(base_ + kNamesOffset);
}

char* TraceRegion::name_text() const {
  return reinterpret_cast<char*>(base_ + text_offset(names_));
}

layout::RingHeader& TraceRegion::ring(uint32_t index) const {
  MUSTER_CHECK(index < rings_, index, rings_);
  return *reinterpret_cast<layout::RingHeader*>(base_ + rings_offset(names_, name_bytes_) +
                                                index * ring_bytes(slots_));
}

layout::Slot* TraceRegion::ring_slots(uint32_t index) const {
  return reinterpret_cast<layout::Slot*>(reinterpret_cast<std::byte*>(&ring(index)) + kPage);
}

}  // namespace muster
