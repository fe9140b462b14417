#include "insight/report/ledger_bar.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "insight/report/markup.h"

namespace muster {
namespace {

constexpr double kWidth = 920, kHeight = 44, kGap = 2, kHairline = 1.5;
constexpr double kPixelsPerCharacter = 7.2;

struct Segment {
  Leaf leaf;
  double share, width;
};

// Widths in proportion to time, but never below a hairline; the wide ones give way.
std::vector<Segment> segments_of(const Ledger& ledger) {
  std::vector<Segment> segments;
  for (const Leaf leaf : leaves_in_reading_order())
    if (ledger.at(leaf) > 0)
      segments.push_back(
          {leaf, static_cast<double>(ledger.at(leaf)) / static_cast<double>(ledger.total()), 0});
  const double room = kWidth - kGap * static_cast<double>(segments.size() - 1);
  double wide = 0, fixed = 0;
  for (Segment& s : segments) {
    s.width = s.share * room;
    if (s.width < kHairline)
      fixed += s.width = kHairline;
    else
      wide += s.width;
  }
  for (Segment& s : segments)
    if (s.width > kHairline) s.width *= (room - fixed) / wide;
  return segments;
}

}  // namespace

std::string leaf_css_class(Leaf leaf) {
  std::string name = fmt::format("leaf-{}", leaf_name(leaf));
  for (char& c : name)
    if (c == '.' || c == '_') c = '-';
  return name;
}

std::string ledger_bar_svg(const Ledger& ledger) {
  if (ledger.total() <= 0) return {};
  std::string svg = fmt::format(
      "<svg viewBox=\"0 0 {} {}\" role=\"img\" aria-labelledby=\"ledger-t ledger-d\"><title "
      "id=\"ledger-t\">Goodput ledger</title><desc id=\"ledger-d\">{:.1f} % of {} rank-seconds "
      "went to "
      "steps that count; the table below lists every part.</desc>",
      kWidth, kHeight, ledger.goodput() * 100,
      tick_text(static_cast<double>(ledger.total()) / 1e9));
  auto out = std::back_inserter(svg);
  double x = 0;
  for (const Segment& s : segments_of(ledger)) {
    const std::string label = std::string(leaf_name(s.leaf));
    const std::string text = fmt::format("{}: {} ({:.2f} %): {}", label,
                                         span_text(static_cast<double>(ledger.at(s.leaf)) / 1e9),
                                         s.share * 100, leaf_meaning(s.leaf));
    fmt::format_to(
        out,
        "<g class=\"{}\"><rect x=\"{:.2f}\" y=\"0\" width=\"{:.2f}\" height=\"{}\" rx=\"3\">"
        "<title>{}</title></rect>",
        leaf_css_class(s.leaf), x, s.width, kHeight, escape_html(text));
    const std::string full = fmt::format("{} {:.1f} %", label, s.share * 100);
    if (static_cast<double>(full.size()) * kPixelsPerCharacter + 16 < s.width)
      fmt::format_to(out, "<text class=\"in\" x=\"{:.1f}\" y=\"{}\">{}</text>", x + 10,
                     kHeight / 2 + 5, escape_html(full));
    svg += "</g>";
    x += s.width + kGap;
  }
  return svg + "</svg>";
}

}  // namespace muster
