// Segment: the records of one process on disk, RUN/trace/attempt-A/rank-R.seg, appended to while
// the process runs, so that a run is not limited by its rings. docs/formats/trace.md describes it.
//
//   file   = blocks
//   block  = "MSEG" u8 kind, u8 codec (0 plain, 1 zstd), u16 0, u32 stored bytes, u32 plain bytes,
//            u32 CRC32C of the stored payload, u32 CRC32C of the 20 bytes before, stored payload
//   kinds  = 1 process     varints version, rank, attempt, pid, tick source (zigzag where signed)
//            2 names       varint first id, count; per name varint length, bytes
//            3 threads     varint count; per thread varint ring, zigzag tid, varint length, bytes
//            4 calibration varint count; per entry varint ticks, zigzag monotonic, zigzag realtime
//            5 records     varint ring, first index, overrun, count; then one column after the
//                          other: t (zigzag delta to the record before), v, name, kind_shift,
//                          flags, a and b (zigzag delta to the record before)
// Integers of the block header are little-endian.
//
// A reader takes any prefix of a file: a block that is cut or fails its check is skipped, the next
// "MSEG" whose header checks is searched, and the bytes passed over are counted. Blocks may repeat
// (a drain that was cut off by a full disk is repeated): records that were read already are dropped
// by their index.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "sys/files.h"
#include "trace/reader.h"
#include "trace/region.h"
#include "trace/trace_data.h"

namespace muster {

// "trace/attempt-A/rank-R.seg", relative to the run directory.
std::string segment_path(int32_t attempt, int32_t rank);

// The blocks, without files. A writer of segments calls these; so do tests.
std::string process_block(const TraceRegion& region);
std::string names_block(size_t first_id, const std::vector<std::string>& names);
std::string threads_block(const std::vector<RingThread>& threads);
std::string calibrations_block(const std::vector<Calibration>& calibrations);
std::string records_block(const RingCopy& copy);

// Reads as much as there is. Errors: corrupt when not a single block is whole.
Result<TraceData> parse_segment(std::string_view bytes);

struct DrainReport {
  uint64_t records = 0;
  uint64_t overrun = 0;     // lost in this drain
  uint64_t bytes = 0;       // appended
  int64_t residual_ns = 0;  // of the calibrations so far; over 1,000 the clock is doubtful
};

// Saves a region to its segment, a piece at each drain. Call about once a second and once more when
// the process is gone. Used by one thread.
class SegmentWriter {
 public:
  // The folder of `path` is created. `files` and `region` must outlive the writer. A file that is
  // there is replaced: an attempt is recorded once.
  static Result<SegmentWriter> create(Files& files, const std::string& path, TraceRegion& region);
  ~SegmentWriter();
  SegmentWriter(SegmentWriter&& other) noexcept;
  SegmentWriter& operator=(SegmentWriter&& other) = delete;

  // Takes a calibration and appends what is new. After an error (disk full) what was taken is kept
  // for the next drain, up to kPendingBytes; then records stay in their rings and are overwritten
  // there, counted as overrun. The run itself must not stop for it.
  Result<DrainReport> drain();
  static constexpr size_t kPendingBytes = 64u << 20;

 private:
  SegmentWriter(Files& files, FileHandle file, TraceRegion& region);

  Files& files_;
  FileHandle file_;
  TraceRegion& region_;
  RegionReader reader_;
  size_t names_written_ = 0;
  std::vector<RingThread> threads_written_;
  int32_t pid_written_ = -1;
  std::vector<Calibration> calibrations_;
  std::string pending_;  // blocks not yet on disk
};

Result<TraceData> read_segment(Files& files, const std::string& path);
// All segments of a run directory (the root of `files`), by attempt, then rank. Unreadable ones are
// listed in `problems` and left out. No trace folder: empty.
Result<std::vector<TraceData>> read_segments(Files& files, std::vector<std::string>& problems);

}  // namespace muster
