#include "insight/export/lanes.h"

#include <algorithm>

namespace muster {
namespace {

struct Lane {
  std::vector<SliceEdge> edges;
  std::vector<Slice> open;  // each within the one before

  void close_until(int64_t time_ns) {
    while (!open.empty() && open.back().end_ns <= time_ns) {
      edges.push_back({false, open.back().end_ns, open.back().source});
      open.pop_back();
    }
  }
  bool takes(const Slice& s) {
    close_until(s.begin_ns);
    return open.empty() || s.end_ns <= open.back().end_ns;
  }
};

}  // namespace

std::vector<std::vector<SliceEdge>> lay_on_lanes(std::vector<Slice> slices) {
  for (Slice& s : slices) s.end_ns = std::max(s.begin_ns, s.end_ns);
  std::stable_sort(slices.begin(), slices.end(), [](const Slice& x, const Slice& y) {
    return x.begin_ns != y.begin_ns ? x.begin_ns < y.begin_ns : x.end_ns > y.end_ns;
  });
  std::vector<Lane> lanes;
  for (const Slice& s : slices) {
    auto lane = std::find_if(lanes.begin(), lanes.end(), [&](Lane& l) { return l.takes(s); });
    if (lane == lanes.end()) lane = lanes.emplace(lanes.end());
    lane->edges.push_back({true, s.begin_ns, s.source});
    lane->open.push_back(s);
  }
  std::vector<std::vector<SliceEdge>> edges;
  for (Lane& lane : lanes) {
    lane.close_until(INT64_MAX);
    edges.push_back(std::move(lane.edges));
  }
  return edges;
}

}  // namespace muster
