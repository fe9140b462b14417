#include "app/top/panel.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "base/units.h"

namespace muster {
namespace {

std::string percent(double share) {
  return std::isfinite(share) ? fmt::format("{:.1f}%", share * 100) : "-";
}
std::string number(double value, const char* format) {
  return std::isfinite(value) ? fmt::format(fmt::runtime(format), value) : "-";
}
std::string rate(double per_second) {
  return std::isfinite(per_second) ? format_count(per_second) : "-";
}

std::string mfu_text(const PanelState& s) {
  return std::isfinite(s.mfu) ? fmt::format("{} [{}]", percent(s.mfu), s.mfu_label) : "-";
}
std::string eta_text(const PanelState& s) {
  return s.eta.count() < 0 ? "-" : format_duration(s.eta);
}

std::string bar(double share, int columns) {
  const int full = static_cast<int>(std::lround(std::clamp(share, 0.0, 1.0) * columns));
  std::string text;
  for (int i = 0; i < columns; ++i) text += i < full ? "█" : "░";
  return text;
}

// Cuts to `width` columns. All our characters are one column wide; continuation bytes of UTF-8 do
// not count.
std::string cut(const std::string& text, int width) {
  int columns = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    if ((static_cast<unsigned char>(text[i]) & 0xc0) == 0x80) continue;
    if (columns++ == width) return text.substr(0, i);
  }
  return text;
}

}  // namespace

std::string sparkline(const std::vector<double>& values, int columns) {
  static constexpr const char* kBlocks[] = {"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
  const size_t count = std::min(values.size(), static_cast<size_t>(std::max(columns, 0)));
  const auto begin = values.end() - static_cast<ptrdiff_t>(count);
  double low = std::numeric_limits<double>::infinity(), high = -low;
  for (auto it = begin; it != values.end(); ++it) {
    if (std::isfinite(*it)) low = std::min(low, *it), high = std::max(high, *it);
  }
  std::string text;
  for (auto it = begin; it != values.end(); ++it) {
    if (!std::isfinite(*it))
      text += " ";
    else
      text += kBlocks[high > low ? static_cast<size_t>((*it - low) / (high - low) * 7.999) : 0];
  }
  return text;
}

std::string panel_line(const PanelState& s) {
  return fmt::format(
      "step {}/{}  loss {}  {} tok/s  mfu {}  comm {}  data {}  ckpt {}  goodput {}  eta {}",
      s.step, s.steps, number(s.loss, "{:.4f}"), rate(s.tokens_per_second), mfu_text(s),
      percent(s.exposed_comm), percent(s.data_wait), percent(s.checkpoint_wait), percent(s.goodput),
      eta_text(s));
}

std::vector<std::string> panel_lines(const PanelState& s, int width, bool colour) {
  width = std::max(width, 40);
  const double share = s.steps > 0 ? static_cast<double>(s.step) / static_cast<double>(s.steps) : 0;
  std::vector<std::string> lines;
  lines.push_back(fmt::format("muster train  {}", s.title));
  lines.push_back(fmt::format("{} step {}/{}  elapsed {}  eta {}",
                              bar(share, std::min(30, width / 3)), s.step, s.steps,
                              format_duration(s.elapsed), eta_text(s)));
  lines.push_back(
      fmt::format("loss {:<8} {}", number(s.loss, "{:.4f}"), sparkline(s.losses, width - 15)));
  lines.push_back(fmt::format("{} tok/s   mfu {}", rate(s.tokens_per_second), mfu_text(s)));
  lines.push_back(
      fmt::format("exposed comm {}   data wait {}   checkpoint {}   goodput {}   restarts {}",
                  percent(s.exposed_comm), percent(s.data_wait), percent(s.checkpoint_wait),
                  percent(s.goodput), s.restarts));
  std::string ranks = "ranks";
  for (const PanelRank& r : s.ranks) {
    ranks += fmt::format("  {}:{}@{}", r.rank, r.running ? r.phase : "down", r.step);
  }
  lines.push_back(ranks);
  for (const std::string& event : s.events) lines.push_back("• " + event);
  for (std::string& line : lines) line = cut(line, width);
  if (colour) {
    lines[0] = "\x1b[1m" + lines[0] + "\x1b[0m";
    lines[2] = "\x1b[36m" + lines[2] + "\x1b[0m";
    const bool down =
        std::any_of(s.ranks.begin(), s.ranks.end(), [](const PanelRank& r) { return !r.running; });
    if (down) lines[5] = "\x1b[31m" + lines[5] + "\x1b[0m";
  }
  return lines;
}

}  // namespace muster
