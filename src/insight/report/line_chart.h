// LineChart: series over a numeric axis as inline SVG: axes, ticks, gaps where values are not
// finite, vertical marks, and per-column tooltips. Pure.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace muster {

struct ChartSeries {
  std::string label;
  std::string css_class;                          // colours come from the page's style
  std::vector<std::pair<double, double>> points;  // x rising
  bool dots = false;                              // single marks instead of a line
};
struct ChartMark {
  double x = 0;
  std::string label;
};
struct LineChart {
  std::string id;  // unique on the page
  std::string title, description;
  std::string x_label, y_label;
  std::vector<ChartSeries> series;
  std::vector<ChartMark> marks;
  bool from_zero = false;  // the y axis begins at 0
};

// Empty text when no series has a finite point. Long series are thinned to the lowest and highest
// value of each column of pixels, so that no spike is lost.
std::string line_chart_svg(const LineChart& chart);

// Exponential moving average; values that are not finite are passed over.
std::vector<std::pair<double, double>> smoothed(
    const std::vector<std::pair<double, double>>& points, double weight_of_new);

}  // namespace muster
