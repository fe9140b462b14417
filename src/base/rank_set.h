// RankSet: a set of ranks as sorted, disjoint strided intervals, so that "every fourth of 100,000
// ranks" costs one entry and prints as "[0-99996:4]". Value type; all operations are pure.
#pragma once

#include <compare>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "base/ids.h"
#include "base/result.h"

namespace muster {

class RankSet {
 public:
  // first, first + stride, …, last. One rank has stride 1; otherwise last > first and stride
  // divides last - first.
  struct Run {
    int32_t first, last, stride;
    auto operator<=>(const Run&) const = default;
    int64_t size() const { return (int64_t{last} - first) / stride + 1; }
  };

  RankSet() = default;
  RankSet(std::initializer_list<int32_t> ranks);
  static RankSet range(int32_t first, int32_t count);  // first, …, first + count - 1
  static RankSet from_sorted(const std::vector<int32_t>& sorted_unique);
  // "[0-3,8,10-20:2]" or the same without brackets; "[]" is empty. Errors: invalid_argument.
  static Result<RankSet> parse(std::string_view text);

  bool empty() const { return runs_.empty(); }
  int64_t size() const;
  bool contains(Rank rank) const;
  void insert(Rank rank);
  std::vector<int32_t> ranks() const;
  const std::vector<Run>& runs() const { return runs_; }

  RankSet united(const RankSet& other) const;
  RankSet intersected(const RankSet& other) const;
  RankSet without(const RankSet& other) const;

  std::string to_string() const;
  bool operator==(const RankSet&) const =
      default;  // equal sets have equal runs: the form is canonical

 private:
  std::vector<Run> runs_;
};

}  // namespace muster
