#include "insight/report/heat_strip.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <map>

#include "insight/report/markup.h"

namespace muster {
namespace {

constexpr double kWidth = 920, kLeft = 56, kRight = 16, kTop = 4, kBottom = 56;
constexpr int64_t kMostColumns = 400, kMostRows = 64;
// Lower bounds of levels 1..7 as multiples of the median.
constexpr double kBounds[7] = {0.95, 1.05, 1.15, 1.3, 1.5, 1.75, 2.0};

struct Cell {
  double seconds = 0;
  int64_t step = 0;
  int32_t rank = 0;
};

double median_of(const std::vector<ReportRankStep>& steps) {
  std::vector<double> times;
  for (const ReportRankStep& s : steps) times.push_back(s.seconds);
  const auto middle = times.begin() + static_cast<long>(times.size() / 2);
  std::nth_element(times.begin(), middle, times.end());
  return *middle;
}

void draw_legend(std::string& svg, double y, double median) {
  auto out = std::back_inserter(svg);
  fmt::format_to(out,
                 "<text class=\"tick\" x=\"{}\" y=\"{:.1f}\">median {}; times the median:</text>",
                 kLeft, y + 10, span_text(median));
  double x = kLeft + 250;
  for (int level = 0; level < 8; ++level, x += 62) {
    const std::string text = level == 0   ? "< 0.95"
                             : level == 7 ? ">= 2"
                                          : fmt::format("{}+", kBounds[level - 1]);
    fmt::format_to(
        out,
        "<rect class=\"h{}\" x=\"{:.1f}\" y=\"{:.1f}\" width=\"12\" height=\"12\" rx=\"2\"/>"
        "<text class=\"tick\" x=\"{:.1f}\" y=\"{:.1f}\">{}</text>",
        level, x, y, x + 16, y + 10, escape_html(text));
  }
}

}  // namespace

int heat_level(double seconds, double median_seconds) {
  int level = 0;
  for (const double bound : kBounds)
    if (seconds >= bound * median_seconds) ++level;
  return level;
}

std::string heat_strip_svg(const std::vector<ReportRankStep>& rank_steps) {
  if (rank_steps.empty()) return {};
  const auto [first, last] =
      std::minmax_element(rank_steps.begin(), rank_steps.end(),
                          [](const auto& a, const auto& b) { return a.step < b.step; });
  const int64_t first_step = first->step, last_step = last->step;
  int64_t ranks = 1;
  for (const ReportRankStep& s : rank_steps) ranks = std::max<int64_t>(ranks, s.rank + 1);
  const int64_t steps = last_step - first_step + 1;
  const int64_t steps_per_cell = (steps + kMostColumns - 1) / kMostColumns;
  const int64_t ranks_per_cell = (ranks + kMostRows - 1) / kMostRows;
  const int64_t columns = (steps + steps_per_cell - 1) / steps_per_cell;
  const int64_t rows = (ranks + ranks_per_cell - 1) / ranks_per_cell;

  std::map<std::pair<int64_t, int64_t>, Cell> cells;
  for (const ReportRankStep& s : rank_steps) {
    Cell& cell = cells[{s.rank / ranks_per_cell, (s.step - first_step) / steps_per_cell}];
    if (s.seconds >= cell.seconds) cell = {s.seconds, s.step, s.rank};
  }
  const double median = median_of(rank_steps);
  const double cell_width = (kWidth - kLeft - kRight) / static_cast<double>(columns);
  const double cell_height = rows <= 4 ? 26 : rows <= 16 ? 16 : 9;
  const double gap = cell_width > 4 ? 1 : 0;
  const double height = kTop + static_cast<double>(rows) * cell_height + kBottom;

  std::string svg = fmt::format(
      "<svg viewBox=\"0 0 {} {:.0f}\" role=\"img\" aria-labelledby=\"strip-t strip-d\"><title "
      "id=\"strip-t\">Step time by rank</title><desc id=\"strip-d\">{} ranks, steps {} to {}; "
      "median "
      "step {}. Each cell is the slowest of {} step(s) on {} rank(s).</desc>",
      kWidth, height, ranks, first_step, last_step, span_text(median), steps_per_cell,
      ranks_per_cell);
  auto out = std::back_inserter(svg);
  for (const auto& [at, cell] : cells) {
    const double x = kLeft + static_cast<double>(at.second) * cell_width;
    const double y = kTop + static_cast<double>(at.first) * cell_height;
    fmt::format_to(
        out,
        "<rect class=\"h{}\" x=\"{:.2f}\" y=\"{:.1f}\" width=\"{:.2f}\" height=\"{:.1f}\">"
        "<title>rank {}, step {}: {}, {:.2f} x median</title></rect>",
        heat_level(cell.seconds, median), x, y, cell_width - gap, cell_height - 2, cell.rank,
        cell.step, span_text(cell.seconds), median > 0 ? cell.seconds / median : 0.0);
  }
  const int64_t label_every = std::max<int64_t>(1, rows / 8);
  for (int64_t row = 0; row < rows; row += label_every)
    fmt::format_to(out,
                   "<text class=\"tick\" x=\"{}\" y=\"{:.1f}\" text-anchor=\"end\">{}{}</text>",
                   kLeft - 8, kTop + (static_cast<double>(row) + 0.5) * cell_height + 3,
                   row == 0 ? "rank " : "", row * ranks_per_cell);
  const double axis_y = kTop + static_cast<double>(rows) * cell_height + 14;
  for (const double t :
       nice_ticks(static_cast<double>(first_step), static_cast<double>(last_step))) {
    if (t < static_cast<double>(first_step) || t > static_cast<double>(last_step)) continue;
    fmt::format_to(
        out, "<text class=\"tick\" x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"middle\">{}</text>",
        kLeft + (t - static_cast<double>(first_step) + 0.5) / static_cast<double>(steps_per_cell) *
                    cell_width,
        axis_y, tick_text(t));
  }
  draw_legend(svg, axis_y + 18, median);
  return svg + "</svg>";
}

}  // namespace muster
