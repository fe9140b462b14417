#include "data/packing.h"

#include <algorithm>

#include "base/check.h"

namespace muster {

void PackedRows::clear() {
  tokens.clear();
  targets.clear();
  positions.clear();
  segments.clear();
  valid_targets = 0;
}

void append_sequence(const PackedGroup& group, int64_t index, int64_t length, int32_t end_of_text,
                     PackedRows& rows) {
  const auto size = static_cast<int64_t>(group.ids.size());
  const int64_t begin = index * length, end = std::min(begin + length, size);
  MUSTER_CHECK(begin >= 0 && begin < size, index, length, size);
  if (rows.segments.empty()) rows.segments.push_back(0);
  // The last segment start at or before `begin`; it holds the first token.
  auto next = std::upper_bound(group.starts.begin(), group.starts.end(), begin);
  MUSTER_CHECK(next != group.starts.begin());
  int32_t position = 0;
  for (int64_t i = begin; i < end; ++i) {
    if (next != group.starts.end() && *next == i) {
      if (i != begin) rows.segments.push_back(static_cast<int32_t>(rows.tokens.size()));
      position = 0;
      ++next;
    }
    const bool last_of_segment = i + 1 == size || (next != group.starts.end() && *next == i + 1);
    rows.tokens.push_back(group.ids[static_cast<size_t>(i)]);
    rows.targets.push_back(last_of_segment ? end_of_text : group.ids[static_cast<size_t>(i + 1)]);
    rows.positions.push_back(position++);
  }
  rows.valid_targets += end - begin;
  if (end - begin < length) {
    rows.segments.push_back(static_cast<int32_t>(rows.tokens.size()));
    for (int64_t i = end - begin; i < length; ++i) {
      rows.tokens.push_back(end_of_text);
      rows.targets.push_back(kIgnoredTarget);
      rows.positions.push_back(static_cast<int32_t>(i - (end - begin)));
    }
  }
  rows.segments.push_back(static_cast<int32_t>(rows.tokens.size()));
}

}  // namespace muster
