#include "insight/ledger/claims.h"

#include <algorithm>
#include <bit>

namespace muster {
namespace {

struct Edge {
  int64_t at;
  uint8_t leaf;
  int8_t change;  // +1 opens, -1 closes
};

}  // namespace

Interval intersect(Interval x, Interval y) {
  return {std::max(x.begin, y.begin), std::min(x.end, y.end)};
}

std::vector<Claim> partition(Interval window, std::span<const Claim> claims) {
  std::vector<Claim> parts;
  if (window.empty()) return parts;
  std::vector<Edge> edges;
  edges.reserve(2 * claims.size());
  for (const Claim& claim : claims) {
    const Interval inside = intersect(claim.when, window);
    if (inside.empty()) continue;
    edges.push_back({inside.begin, static_cast<uint8_t>(claim.leaf), +1});
    edges.push_back({inside.end, static_cast<uint8_t>(claim.leaf), -1});
  }
  std::sort(edges.begin(), edges.end(), [](const Edge& x, const Edge& y) { return x.at < y.at; });

  std::array<int64_t, kLeafCount> open{};
  uint32_t active = 0;  // bit per leaf; the lowest is the first in order
  static_assert(kLeafCount <= 32);
  int64_t at = window.begin;
  auto close_part = [&](int64_t until) {
    if (until <= at) return;
    const Leaf leaf = active == 0 ? Leaf::other : static_cast<Leaf>(std::countr_zero(active));
    if (!parts.empty() && parts.back().leaf == leaf)
      parts.back().when.end = until;
    else
      parts.push_back({leaf, {at, until}});
    at = until;
  };
  for (const Edge& e : edges) {
    close_part(e.at);
    open[e.leaf] += e.change;
    active = open[e.leaf] > 0 ? active | 1u << e.leaf : active & ~(1u << e.leaf);
  }
  close_part(window.end);
  return parts;
}

LeafTimes attribute(Interval window, std::span<const Claim> claims) {
  LeafTimes times{};
  for (const Claim& part : partition(window, claims))
    times[static_cast<size_t>(part.leaf)] += part.when.length();
  return times;
}

}  // namespace muster
