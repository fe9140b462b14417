#include "base/rank_set.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <iterator>

namespace muster {

// Greedy from the left: a run of three or more with equal gaps, or of two neighbours, becomes one
// interval. Equal sets give equal runs, since the result depends on the sorted ranks alone.
RankSet RankSet::from_sorted(const std::vector<int32_t>& r) {
  RankSet set;
  size_t i = 0;
  while (i < r.size()) {
    if (i > 0) MUSTER_CHECK(r[i] > r[i - 1], r[i - 1], r[i]);
    size_t end = i + 1;
    if (end < r.size()) {
      const int32_t stride = r[end] - r[i];
      while (end + 1 < r.size() && r[end + 1] - r[end] == stride) ++end;
      const size_t length = end - i + 1;
      if (length >= 3 || stride == 1) {
        set.runs_.push_back({r[i], r[end], stride});
        i = end + 1;
        continue;
      }
    }
    set.runs_.push_back({r[i], r[i], 1});
    ++i;
  }
  return set;
}

RankSet::RankSet(std::initializer_list<int32_t> ranks) {
  std::vector<int32_t> sorted(ranks);
  std::sort(sorted.begin(), sorted.end());
  sorted.erase(std::unique(sorted.begin(), sorted.end()), sorted.end());
  *this = from_sorted(sorted);
}

RankSet RankSet::range(int32_t first, int32_t count) {
  RankSet set;
  if (count > 0) set.runs_.push_back({first, first + count - 1, 1});
  return set;
}

int64_t RankSet::size() const {
  int64_t n = 0;
  for (const Run& run : runs_) n += run.size();
  return n;
}

bool RankSet::contains(Rank rank) const {
  return std::any_of(runs_.begin(), runs_.end(), [&](const Run& run) {
    return rank.value >= run.first && rank.value <= run.last &&
           (rank.value - run.first) % run.stride == 0;
  });
}

std::vector<int32_t> RankSet::ranks() const {
  std::vector<int32_t> all;
  all.reserve(static_cast<size_t>(size()));
  for (const Run& run : runs_) {
    for (int64_t r = run.first; r <= run.last; r += run.stride)
      all.push_back(static_cast<int32_t>(r));
  }
  std::sort(all.begin(), all.end());
  return all;
}

void RankSet::insert(Rank rank) {
  *this = united(RankSet{rank.value});
}

template <class Operation>
static RankSet combine(const RankSet& a, const RankSet& b, Operation operation) {
  std::vector<int32_t> out;
  const auto x = a.ranks(), y = b.ranks();
  operation(x.begin(), x.end(), y.begin(), y.end(), std::back_inserter(out));
  return RankSet::from_sorted(out);
}

RankSet RankSet::united(const RankSet& other) const {
  return combine(*this, other, [](auto... arguments) { std::set_union(arguments...); });
}
RankSet RankSet::intersected(const RankSet& other) const {
  return combine(*this, other, [](auto... arguments) { std::set_intersection(arguments...); });
}
RankSet RankSet::without(const RankSet& other) const {
  return combine(*this, other, [](auto... arguments) { std::set_difference(arguments...); });
}

std::string RankSet::to_string() const {
  std::string text = "[";
  for (const Run& run : runs_) {
    if (text.size() > 1) text += ',';
    text += fmt::format("{}", run.first);
    if (run.last != run.first) text += fmt::format("-{}", run.last);
    if (run.stride != 1) text += fmt::format(":{}", run.stride);
  }
  return text + "]";
}

Result<RankSet> RankSet::parse(std::string_view text) {
  const std::string_view whole = text;
  const auto refuse = [&](std::string_view why) {
    return Error(Code::invalid_argument,
                 fmt::format("'{}' is not a set of ranks ({}); write for example [0-3,8,10-20:2]",
                             whole, why));
  };
  if (text.starts_with('[') && text.ends_with(']')) text = text.substr(1, text.size() - 2);
  std::vector<int32_t> ranks;
  while (!text.empty()) {
    const size_t comma = text.find(',');
    std::string_view item = text.substr(0, comma);
    text = comma == std::string_view::npos ? std::string_view() : text.substr(comma + 1);
    if (comma != std::string_view::npos && text.empty()) return refuse("it ends with a comma");
    const char* p = item.data();
    const char* const end = p + item.size();
    int32_t numbers[3] = {0, 0, 1};
    const char separators[3] = {0, '-', ':'};
    int count = 0;
    while (count < 3) {
      const auto [next, status] = std::from_chars(p, end, numbers[count]);
      if (status != std::errc{} || numbers[count] < 0) return refuse("a rank is a number from 0");
      p = next;
      ++count;
      if (p == end) break;
      if (count == 3 || *p != separators[count]) return refuse("unexpected text");
      ++p;
    }
    if (count == 1) numbers[1] = numbers[0];
    if (numbers[1] < numbers[0]) return refuse("a range runs upwards");
    if (numbers[2] < 1) return refuse("a stride is at least 1");
    if ((int64_t{numbers[1]} - numbers[0]) / numbers[2] > 10'000'000)
      return refuse("more than 10 million ranks");
    for (int64_t r = numbers[0]; r <= numbers[1]; r += numbers[2])
      ranks.push_back(static_cast<int32_t>(r));
  }
  std::sort(ranks.begin(), ranks.end());
  ranks.erase(std::unique(ranks.begin(), ranks.end()), ranks.end());
  return from_sorted(ranks);
}

}  // namespace muster
