#include "trace/ticks.h"

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string>

namespace muster {
namespace {

int64_t clock_ns(clockid_t clock) {
  timespec t;
  clock_gettime(clock, &t);
  return int64_t{t.tv_sec} * 1'000'000'000 + t.tv_nsec;
}

bool has_word(std::string_view line, std::string_view word) {
  for (size_t at = line.find(word); at != std::string_view::npos; at = line.find(word, at + 1)) {
    const size_t end = at + word.size();
    const bool starts = at == 0 || line[at - 1] == ' ' || line[at - 1] == '\t';
    const bool ends = end == line.size() || line[end] == ' ';
    if (starts && ends) return true;
  }
  return false;
}

// 64-bit tick differences times a double: exact to 2^-53 relative, below a nanosecond for weeks.
int64_t scaled(uint64_t from, uint64_t to, double ns_per_tick) {
  const double ticks =
      to >= from ? static_cast<double>(to - from) : -static_cast<double>(from - to);
  return static_cast<int64_t>(ticks * ns_per_tick);
}

}  // namespace

TickSource choose_tick_source(std::string_view cpuinfo) {
#if defined(__x86_64__)
  const size_t at = cpuinfo.find("flags");
  if (at == std::string_view::npos) return TickSource::vdso;
  const std::string_view line = cpuinfo.substr(at, cpuinfo.find('\n', at) - at);
  return has_word(line, "constant_tsc") && has_word(line, "nonstop_tsc") ? TickSource::tsc
                                                                         : TickSource::vdso;
#else
  static_cast<void>(cpuinfo);
  static_cast<void>(has_word);
  return TickSource::vdso;
#endif
}

TickSource best_tick_source() {
  std::ifstream in("/proc/cpuinfo");
  std::string text, line;
  while (std::getline(in, line)) {
    text += line;
    text += '\n';
    if (line.rfind("flags", 0) == 0) break;  // every processor repeats the same line
  }
  return choose_tick_source(text);
}

Calibration calibrate(TickSource source) {
  Calibration best;
  uint64_t tightest = UINT64_MAX;
  for (int attempt = 0; attempt < 8; ++attempt) {
    const uint64_t before = read_ticks(source);
    const int64_t monotonic = clock_ns(CLOCK_MONOTONIC);
    const uint64_t after = read_ticks(source);
    const int64_t realtime = clock_ns(CLOCK_REALTIME);
    if (after - before >= tightest) continue;
    tightest = after - before;
    best = {before + (after - before) / 2, monotonic, realtime};
    if (source == TickSource::vdso) best.ticks = static_cast<uint64_t>(monotonic);
  }
  return best;
}

TickScale::TickScale(TickSource source, std::vector<Calibration> calibrations) : source_(source) {
  std::sort(calibrations.begin(), calibrations.end(),
            [](const Calibration& x, const Calibration& y) { return x.ticks < y.ticks; });
  for (const Calibration& c : calibrations) {
    const bool grows = points_.empty() || (c.ticks > points_.back().ticks &&
                                           c.monotonic_ns >= points_.back().monotonic_ns);
    if (grows) points_.push_back(c);
  }
  if (points_.empty()) return;
  const Calibration &first = points_.front(), &last = points_.back();
  realtime_offset_ns_ = last.realtime_ns - last.monotonic_ns;
  if (source_ == TickSource::tsc && points_.size() > 1)
    ns_per_tick_ = static_cast<double>(last.monotonic_ns - first.monotonic_ns) /
                   static_cast<double>(last.ticks - first.ticks);
}

int64_t TickScale::monotonic_ns(uint64_t ticks) const {
  if (source_ == TickSource::vdso || points_.empty()) return static_cast<int64_t>(ticks);
  const auto after = std::upper_bound(points_.begin(), points_.end(), ticks,
                                      [](uint64_t t, const Calibration& c) { return t < c.ticks; });
  if (after == points_.begin())
    return points_.front().monotonic_ns + scaled(points_.front().ticks, ticks, ns_per_tick_);
  const Calibration& low = *(after - 1);
  if (after == points_.end()) return low.monotonic_ns + scaled(low.ticks, ticks, ns_per_tick_);
  const double slope = static_cast<double>(after->monotonic_ns - low.monotonic_ns) /
                       static_cast<double>(after->ticks - low.ticks);
  return low.monotonic_ns + scaled(low.ticks, ticks, slope);
}

int64_t TickScale::residual_ns() const {
  int64_t worst = 0;
  if (source_ == TickSource::vdso || points_.empty()) return worst;
  for (const Calibration& c : points_) {
    const int64_t line =
        points_.front().monotonic_ns + scaled(points_.front().ticks, c.ticks, ns_per_tick_);
    worst = std::max<int64_t>(worst, std::abs(c.monotonic_ns - line));
  }
  return worst;
}

}  // namespace muster
