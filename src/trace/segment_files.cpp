// Segments as files: draining a region into one, reading those of a run.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <optional>
#include <span>

#include "trace/segment.h"

namespace muster {
namespace {

constexpr size_t kRecordsPerBlock = 64 * 1024;

// "attempt-12" with prefix "attempt-" -> 12.
std::optional<int32_t> number_in(std::string_view name, std::string_view prefix,
                                 std::string_view suffix) {
  if (!name.starts_with(prefix) || !name.ends_with(suffix)) return std::nullopt;
  if (name.size() <= prefix.size() + suffix.size()) return std::nullopt;
  name = name.substr(prefix.size(), name.size() - prefix.size() - suffix.size());
  int32_t value = 0;
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), value);
  if (error != std::errc() || end != name.data() + name.size() || value < 0) return std::nullopt;
  return value;
}

Result<std::vector<int32_t>> numbered_entries(Files& files, const std::string& folder,
                                              std::string_view prefix, std::string_view suffix) {
  MUSTER_TRY(const std::vector<DirectoryEntry> entries, files.list(folder));
  std::vector<int32_t> numbers;
  for (const DirectoryEntry& e : entries)
    if (const auto n = number_in(e.name, prefix, suffix)) numbers.push_back(*n);
  std::sort(numbers.begin(), numbers.end());
  return numbers;
}

}  // namespace

SegmentWriter::SegmentWriter(Files& files, FileHandle file, TraceRegion& region)
    : files_(files), file_(file), region_(region), reader_(region) {}

SegmentWriter::SegmentWriter(SegmentWriter&& other) noexcept
    : files_(other.files_),
      file_(other.file_),
      region_(other.region_),
      reader_(std::move(other.reader_)),
      names_written_(other.names_written_),
      threads_written_(std::move(other.threads_written_)),
      pid_written_(other.pid_written_),
      calibrations_(std::move(other.calibrations_)),
      pending_(std::move(other.pending_)) {
  other.file_.id = -1;
}

SegmentWriter::~SegmentWriter() {
  if (file_.id >= 0) (void)files_.close(file_);  // nothing can be done about it here
}

Result<SegmentWriter> SegmentWriter::create(Files& files, const std::string& path,
                                            TraceRegion& region) {
  MUSTER_TRY(make_directories(files, parent_path(path)).context("making the trace folder"));
  // Truncated, then reopened for appending: a drain that failed half-way leaves its bytes behind,
  // and the next one goes after them.
  MUSTER_TRY(const FileHandle fresh, files.open(path, {OpenMode::write_truncate}));
  MUSTER_TRY(files.close(fresh));
  MUSTER_TRY(const FileHandle file, files.open(path, {OpenMode::append}));
  return SegmentWriter(files, file, region);
}

Result<DrainReport> SegmentWriter::drain() {
  const Calibration calibration = calibrate(region_.source());
  region_.add_calibration(calibration);
  if (calibrations_.empty()) {
    calibrations_ = region_.calibrations();
    pending_ += calibrations_block(calibrations_);
  } else {
    calibrations_.push_back(calibration);
    pending_ += calibrations_block({calibration});
  }
  DrainReport report;
  report.residual_ns = TickScale(region_.source(), calibrations_).residual_ns();

  if (pending_.size() < kPendingBytes) {
    const std::vector<RingCopy> copies = reader_.copy_new();
    // Names and threads are read after the records that use them and stand before them.
    if (const int32_t pid = region_.pid(); pid != pid_written_) {
      pending_ += process_block(region_);
      pid_written_ = pid;
    }
    if (const auto names = reader_.names_from(names_written_ + 1); !names.empty()) {
      pending_ += names_block(names_written_ + 1, names);
      names_written_ += names.size();
    }
    if (auto threads = reader_.threads(); threads != threads_written_) {
      pending_ += threads_block(threads);
      threads_written_ = std::move(threads);
    }
    for (const RingCopy& copy : copies) {
      report.records += copy.records.size();
      report.overrun += copy.overrun;
      for (size_t at = 0; at < copy.records.size(); at += kRecordsPerBlock) {
        const size_t n = std::min(kRecordsPerBlock, copy.records.size() - at);
        const auto first = copy.records.begin() + static_cast<long>(at);
        pending_ += records_block({.ring = copy.ring,
                                   .first_index = copy.first_index + at,
                                   .overrun = at == 0 ? copy.overrun : 0,
                                   .records = {first, first + static_cast<long>(n)}});
      }
    }
  }
  MUSTER_TRY(files_.append(file_, std::as_bytes(std::span(pending_.data(), pending_.size())))
                 .context(fmt::format("saving the trace of rank {}", region_.rank())));
  report.bytes = pending_.size();
  pending_.clear();
  return report;
}

Result<TraceData> read_segment(Files& files, const std::string& path) {
  MUSTER_TRY(const std::string bytes, read_file(files, path));
  return parse_segment(bytes).context(path);
}

Result<std::vector<TraceData>> read_segments(Files& files, std::vector<std::string>& problems) {
  std::vector<TraceData> all;
  const auto attempts = numbered_entries(files, "trace", "attempt-", "");
  if (!attempts.ok()) {
    if (attempts.error().code() == Code::not_found) return all;
    return attempts.error();
  }
  for (const int32_t attempt : *attempts) {
    MUSTER_TRY(const auto ranks,
               numbered_entries(files, fmt::format("trace/attempt-{}", attempt), "rank-", ".seg"));
    for (const int32_t rank : ranks) {
      Result<TraceData> data = read_segment(files, segment_path(attempt, rank));
      if (!data.ok()) {
        problems.push_back(data.error().to_string());
        continue;
      }
      data->attempt = attempt;  // the path decides: the process block may be damaged
      data->rank = rank;
      all.push_back(*std::move(data));
    }
  }
  return all;
}

}  // namespace muster
