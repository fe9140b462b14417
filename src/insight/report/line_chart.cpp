#include "insight/report/line_chart.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>

#include "insight/report/markup.h"

namespace muster {
namespace {

constexpr double kWidth = 920, kHeight = 280;
constexpr double kLeft = 56, kRight = 16, kTop = 14, kBottom = 40;
constexpr size_t kColumns = 600;
constexpr size_t kTooltips = 230;

struct Frame {
  double x0, x1, y0, y1;
  double x(double v) const { return kLeft + (v - x0) / (x1 - x0) * (kWidth - kLeft - kRight); }
  double y(double v) const {
    return kHeight - kBottom - (v - y0) / (y1 - y0) * (kHeight - kTop - kBottom);
  }
};

using Points = std::vector<std::pair<double, double>>;

bool finite(const std::pair<double, double>& p) {
  return std::isfinite(p.first) && std::isfinite(p.second);
}

Points thinned(const Points& points) {
  if (points.size() <= 2 * kColumns) return points;
  Points out;
  const size_t bucket = (points.size() + kColumns - 1) / kColumns;
  for (size_t at = 0; at < points.size(); at += bucket) {
    const auto first = points.begin() + static_cast<long>(at);
    const auto last = points.begin() + static_cast<long>(std::min(at + bucket, points.size()));
    // A bucket with a gap keeps it.
    const auto gap = std::find_if_not(first, last, finite);
    if (gap != last) {
      out.push_back(*gap);
      continue;
    }
    auto [low, high] = std::minmax_element(
        first, last, [](const auto& a, const auto& b) { return a.second < b.second; });
    if (high < low) std::swap(low, high);
    out.push_back(*low);
    if (low != high) out.push_back(*high);
  }
  return out;
}

std::string path_of(const Points& points, const Frame& f) {
  std::string d;
  bool pen_down = false;
  for (const auto& p : thinned(points)) {
    if (!finite(p)) {
      pen_down = false;
      continue;
    }
    fmt::format_to(std::back_inserter(d), "{}{:.1f} {:.1f}", pen_down ? "L" : "M", f.x(p.first),
                   f.y(p.second));
    pen_down = true;
  }
  return d;
}

void draw_axes(std::string& svg, const LineChart& chart, const Frame& f,
               const std::vector<double>& y_ticks) {
  auto out = std::back_inserter(svg);
  for (const double t : y_ticks)
    fmt::format_to(out,
                   "<line class=\"grid\" x1=\"{}\" x2=\"{}\" y1=\"{:.1f}\" y2=\"{:.1f}\"/>"
                   "<text class=\"tick\" x=\"{}\" y=\"{:.1f}\" text-anchor=\"end\">{}</text>",
                   kLeft, kWidth - kRight, f.y(t), f.y(t), kLeft - 8, f.y(t) + 4, tick_text(t));
  for (const double t : nice_ticks(f.x0, f.x1)) {
    if (t < f.x0 || t > f.x1 || t != std::floor(t)) continue;
    fmt::format_to(out,
                   "<text class=\"tick\" x=\"{:.1f}\" y=\"{}\" text-anchor=\"middle\">{}</text>",
                   f.x(t), kHeight - kBottom + 18, tick_text(t));
  }
  fmt::format_to(out,
                 "<text class=\"tick\" x=\"{}\" y=\"{}\" text-anchor=\"end\">{}</text>"
                 "<line class=\"axis\" x1=\"{}\" x2=\"{}\" y1=\"{}\" y2=\"{}\"/>",
                 kWidth - kRight, kHeight - 6, escape_html(chart.x_label), kLeft, kWidth - kRight,
                 kHeight - kBottom, kHeight - kBottom);
}

void draw_tooltips(std::string& svg, const LineChart& chart, const Frame& f) {
  const Points* longest = nullptr;
  for (const ChartSeries& s : chart.series)
    if (!s.dots && (longest == nullptr || s.points.size() > longest->size())) longest = &s.points;
  if (longest == nullptr || longest->empty()) return;
  const size_t stride = (longest->size() + kTooltips - 1) / kTooltips;
  for (size_t i = 0; i < longest->size(); i += stride) {
    const double from = f.x((*longest)[i].first);
    const double to =
        i + stride < longest->size() ? f.x((*longest)[i + stride].first) : kWidth - kRight;
    std::string text = fmt::format("{} {}", chart.x_label, tick_text((*longest)[i].first));
    for (const ChartSeries& s : chart.series) {
      if (s.dots || i >= s.points.size() || !finite(s.points[i])) continue;
      text += fmt::format("\n{}: {:.4g}", s.label, s.points[i].second);
    }
    fmt::format_to(
        std::back_inserter(svg),
        "<rect class=\"hit\" x=\"{:.1f}\" y=\"{}\" width=\"{:.1f}\" height=\"{}\"><title>{}"
        "</title></rect>",
        from, kTop, std::max(0.5, to - from), kHeight - kTop - kBottom, escape_html(text));
  }
}

}  // namespace

Points smoothed(const Points& points, double weight_of_new) {
  Points out;
  double mean = std::numeric_limits<double>::quiet_NaN();
  for (const auto& [x, y] : points) {
    if (std::isfinite(y)) mean = std::isfinite(mean) ? mean + weight_of_new * (y - mean) : y;
    out.emplace_back(x, mean);
  }
  return out;
}

std::string line_chart_svg(const LineChart& chart) {
  constexpr double kInf = std::numeric_limits<double>::infinity();
  double x0 = kInf, x1 = -kInf, y0 = kInf, y1 = -kInf;
  for (const ChartSeries& s : chart.series)
    for (const auto& p : s.points) {
      if (!finite(p)) continue;
      x0 = std::min(x0, p.first), x1 = std::max(x1, p.first);
      y0 = std::min(y0, p.second), y1 = std::max(y1, p.second);
    }
  if (x0 > x1) return {};
  if (x0 == x1) x1 = x0 + 1;
  if (chart.from_zero) y0 = std::min(0.0, y0);
  const std::vector<double> y_ticks = nice_ticks(y0, y1);
  const Frame f{x0, x1, y_ticks.front(), y_ticks.back()};

  std::string svg = fmt::format(
      "<svg viewBox=\"0 0 {} {}\" role=\"img\" aria-labelledby=\"{}-t {}-d\"><title id=\"{}-t\">{}"
      "</title><desc id=\"{}-d\">{}</desc>",
      kWidth, kHeight, chart.id, chart.id, chart.id, escape_html(chart.title), chart.id,
      escape_html(chart.description));
  draw_axes(svg, chart, f, y_ticks);
  auto out = std::back_inserter(svg);
  for (const ChartMark& m : chart.marks) {
    if (m.x < f.x0 || m.x > f.x1) continue;
    fmt::format_to(out,
                   "<line class=\"mark\" x1=\"{:.1f}\" x2=\"{:.1f}\" y1=\"{}\" y2=\"{}\"><title>{}"
                   "</title></line>",
                   f.x(m.x), f.x(m.x), kTop, kHeight - kBottom, escape_html(m.label));
  }
  draw_tooltips(svg, chart, f);
  for (const ChartSeries& s : chart.series) {
    if (!s.dots) {
      fmt::format_to(out, "<path class=\"{}\" d=\"{}\"/>", s.css_class, path_of(s.points, f));
      continue;
    }
    for (const auto& p : s.points) {
      if (!finite(p)) continue;
      fmt::format_to(
          out,
          "<circle class=\"{}\" cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"4\"><title>{}</title></circle>",
          s.css_class, f.x(p.first), f.y(p.second),
          escape_html(fmt::format("{} at {} {}: {:.4g}", s.label, chart.x_label, tick_text(p.first),
                                  p.second)));
    }
  }
  return svg + "</svg>";
}

}  // namespace muster
