// TraceRegion: the shared memory of one worker process: header, progress page, calibrations, name
// table and one ring per recording thread. A sealed memfd, made by the supervisor (which keeps it,
// so that nothing is lost when the worker is killed) or by the worker itself when there is none.
//
//   offset        part
//   0             Header, 4096 bytes
//   4096          ProgressPage (progress_page.h)
//   8192          Calibrations: u64 count, then kCalibrationSlots x {u64 ticks, i64 mono, i64 wall}
//   16384         name entries: names x {u32 offset, u32 length}
//   then          name bytes
//   then          rings, each RingHeader (4096 bytes) + slots x 32 bytes
// Every part starts on a page. Pages never written take no memory.
//
// One process writes records into a region; any number of processes read it. The mapping of a
// region is checked against the size of its descriptor, and a reader takes sizes from the checked
// copy alone, so a broken writer can produce nonsense records but not a wild read.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "trace/progress_page.h"
#include "trace/record.h"
#include "trace/ticks.h"

namespace muster {

struct TraceRegionOptions {
  int32_t rank = 0;
  int32_t attempt = 0;
  uint32_t rings = 32;
  uint32_t slots = 1u << 18;  // per ring; a power of two. 8 MiB each, used only as records come
  uint32_t names = 4096;      // at most 65,535
  uint32_t name_bytes = 256 * 1024;
  TickSource source = best_tick_source();
};

inline constexpr uint32_t kCalibrationSlots = 256;
inline constexpr size_t kThreadNameBytes = 64;

namespace layout {

struct Header {
  uint64_t magic;
  uint32_t version;
  uint32_t tick_source;
  uint64_t region_bytes;
  int32_t rank, attempt;
  uint32_t rings, slots, names, name_bytes;
  std::atomic<int32_t> pid;             // of the writer; 0 until a Recorder attaches
  std::atomic<uint32_t> rings_claimed;  // may exceed `rings`: the rest found no room
  std::atomic<uint32_t> names_used;     // entries 1..names_used are whole (id 0 is "table full")
  std::atomic<uint64_t> names_refused;
  std::atomic<uint64_t> threads_refused;
};

struct Calibrations {
  std::atomic<uint64_t> count;  // grows for ever; slot i % kCalibrationSlots
  struct Slot {
    std::atomic<uint64_t> ticks;
    std::atomic<int64_t> monotonic_ns, realtime_ns;
  } slots[kCalibrationSlots];
};

struct NameEntry {
  uint32_t offset, length;
};

struct RingHeader {
  alignas(64) std::atomic<uint64_t> head;  // records published since the start
  alignas(64) std::atomic<int32_t> tid;
  std::atomic<uint32_t> thread_name_length;  // stored last
  char thread_name[kThreadNameBytes];
};

// Four relaxed-size words: a record is copied word by word, so that a reader that meets a writer
// sees old or new words, and the head tells which records were whole.
struct Slot {
  std::atomic<uint64_t> word[4];
};
static_assert(sizeof(Slot) == sizeof(Record));

}  // namespace layout

// Owns a mapping and a duplicate of the descriptor. Movable. Pointers handed out live as long.
class TraceRegion {
 public:
  // A new memfd (close-on-exec, sealed against resizing). Errors: invalid_argument for sizes out
  // of range; what memfd_create and mmap say.
  static Result<TraceRegion> create(const TraceRegionOptions& options);
  // Maps a region that exists, for a writer or a reader alike; `fd` stays the caller's. Errors:
  // corrupt when it is not a region of this version or shorter than it says.
  static Result<TraceRegion> map(int fd);

  ~TraceRegion();
  TraceRegion(TraceRegion&& other) noexcept;
  TraceRegion& operator=(TraceRegion&& other) noexcept;

  int fd() const { return fd_; }
  int32_t rank() const { return rank_; }
  int32_t attempt() const { return attempt_; }
  int32_t pid() const { return header().pid.load(std::memory_order_acquire); }
  TickSource source() const { return source_; }
  uint32_t rings() const { return rings_; }
  uint32_t slots() const { return slots_; }
  uint32_t names() const { return names_; }
  uint32_t name_bytes() const { return name_bytes_; }

  ProgressPage& progress() const;
  // Appends one calibration; called by the side that drains (or by the writer when alone), one
  // thread at a time.
  void add_calibration(const Calibration& calibration);
  std::vector<Calibration> calibrations() const;

  layout::Header& header() const { return *reinterpret_cast<layout::Header*>(base_); }
  layout::NameEntry* name_entries() const;
  char* name_text() const;
  layout::RingHeader& ring(uint32_t index) const;
  layout::Slot* ring_slots(uint32_t index) const;

 private:
  TraceRegion() = default;
  void adopt_sizes(const layout::Header& header);
  layout::Calibrations& calibration_table() const;

  int fd_ = -1;
  std::byte* base_ = nullptr;
  size_t bytes_ = 0;
  int32_t rank_ = 0, attempt_ = 0;
  TickSource source_ = TickSource::vdso;
  uint32_t rings_ = 0, slots_ = 0, names_ = 0, name_bytes_ = 0;
};

}  // namespace muster
