// Packing: a group of documents -> sequences of exactly `length` tokens, cut from the concatenation
// of the group's segments. The plan is a pure function of the group; nothing is truncated: what
// does not fill the last sequence is padded with ignored targets, and a segment that is cut goes on
// in the next sequence with positions from 0.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace muster {

inline constexpr int32_t kIgnoredTarget = -1;

// The token stream of one group. `starts` are the beginnings of segments, rising, the first 0.
struct PackedGroup {
  std::vector<int32_t> ids;
  std::vector<int64_t> starts;

  int64_t sequences(int64_t length) const {
    return (static_cast<int64_t>(ids.size()) + length - 1) / length;
  }
};

// Rows to be written one after another; the rows of a micro-batch share it.
struct PackedRows {
  std::vector<int32_t> tokens, targets, positions;  // length each
  std::vector<int32_t> segments;  // offsets into tokens: 0 first, tokens.size() last
  int64_t valid_targets = 0;
  void clear();
};

// Appends sequence `index` of the group. The target of a token is the next token of its segment; of
// a segment's last token, `end_of_text`.
void append_sequence(const PackedGroup& group, int64_t index, int64_t length, int32_t end_of_text,
                     PackedRows& rows);

}  // namespace muster
