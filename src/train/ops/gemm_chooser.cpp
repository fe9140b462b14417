#include "train/ops/gemm_chooser.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <vector>

namespace muster::ops {
namespace {

std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  while (!text.empty()) {
    const size_t end = std::min(text.find(separator), text.size());
    if (end > 0) parts.push_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return parts;
}

bool read(std::string_view text, int64_t& value) {
  const auto [end, status] = std::from_chars(text.data(), text.data() + text.size(), value);
  return status == std::errc{} && end == text.data() + text.size() && value >= 0;
}

}  // namespace

const GemmChoice* GemmChooser::find(const GemmShape& shape) const {
  const auto found = choices_.find(shape);
  return found == choices_.end() ? nullptr : &found->second;
}

GemmChoice GemmChooser::faster(Nanos (&own)[kRounds], Nanos (&vendor)[kRounds]) {
  // The best run of each: on a shared machine noise only adds time.
  return *std::min_element(std::begin(vendor), std::end(vendor)) <
                 *std::min_element(std::begin(own), std::end(own))
             ? GemmChoice::vendor
             : GemmChoice::own;
}

std::string GemmChooser::to_text() const {
  std::string text;
  for (const auto& [s, choice] : choices_) {
    text += fmt::format("{}{} {} {} {} {} {}\n", s.ta ? 'T' : 'N', s.tb ? 'T' : 'N', s.M, s.N, s.K,
                        s.accumulate ? 1 : 0, choice == GemmChoice::own ? "own" : "vendor");
  }
  return text;
}

Status GemmChooser::restore(std::string_view text) {
  std::map<GemmShape, GemmChoice> read_choices = choices_;
  for (std::string_view line : split(text, '\n')) {
    const std::vector<std::string_view> words = split(line, ' ');
    const auto letter = [](char c) { return c == 'N' || c == 'T'; };
    GemmShape s;
    int64_t beta = 0;
    const bool valid = words.size() == 6 && words[0].size() == 2 && letter(words[0][0]) &&
                       letter(words[0][1]) && read(words[1], s.M) && read(words[2], s.N) &&
                       read(words[3], s.K) && read(words[4], beta) && beta <= 1 &&
                       (words[5] == "own" || words[5] == "vendor");
    if (!valid) {
      return Error(Code::invalid_argument,
                   fmt::format("matrix product choice '{}' is not 'NT M N K beta own|vendor'; "
                               "delete the record to measure again",
                               line));
    }
    s.ta = words[0][0] == 'T';
    s.tb = words[0][1] == 'T';
    s.accumulate = beta == 1;
    read_choices[s] = words[5] == "own" ? GemmChoice::own : GemmChoice::vendor;
  }
  choices_ = std::move(read_choices);
  return {};
}

}  // namespace muster::ops
