#include "insight/report/markup.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>

namespace muster {
namespace {

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";

// Length of the valid UTF-8 sequence at the front (no overlong forms, no surrogates), 0 if none.
size_t utf8_length(std::string_view in) {
  const auto byte = [&](size_t i) { return static_cast<uint8_t>(in[i]); };
  const uint8_t first = byte(0);
  if (first < 0x80) return 1;
  const size_t n = first >= 0xF0 && first <= 0xF4  ? 4
                   : first >= 0xE0 && first < 0xF0 ? 3
                   : first >= 0xC2 && first < 0xE0 ? 2
                                                   : 0;
  if (n == 0 || in.size() < n) return 0;
  for (size_t i = 1; i < n; ++i)
    if ((byte(i) & 0xC0) != 0x80) return 0;
  if (first == 0xE0 && byte(1) < 0xA0) return 0;
  if (first == 0xED && byte(1) > 0x9F) return 0;
  if (first == 0xF0 && byte(1) < 0x90) return 0;
  if (first == 0xF4 && byte(1) > 0x8F) return 0;
  return n;
}

template <class Put>
void for_each_character(std::string_view in, Put put) {
  while (!in.empty()) {
    const size_t n = utf8_length(in);
    put(n == 0 ? kReplacement : in.substr(0, n));
    in.remove_prefix(std::max<size_t>(1, n));
  }
}

bool is_forbidden(std::string_view c) {
  return c.size() == 1 && static_cast<uint8_t>(c[0]) < 0x20 && c[0] != '\n' && c[0] != '\t';
}

}  // namespace

std::string escape_html(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for_each_character(text, [&](std::string_view c) {
    if (c == "&")
      out += "&amp;";
    else if (c == "<")
      out += "&lt;";
    else if (c == ">")
      out += "&gt;";
    else if (c == "\"")
      out += "&quot;";
    else if (c == "'")
      out += "&#39;";
    else
      out += is_forbidden(c) ? kReplacement : c;
  });
  return out;
}

std::string escape_markdown(std::string_view text) {
  std::string out;
  for_each_character(text, [&](std::string_view c) {
    if (c == "\n" || c == "\t")
      out += ' ';
    else if (is_forbidden(c))
      out += kReplacement;
    else if (c == "<")
      out += "&lt;";
    else if (c == "&")
      out += "&amp;";
    else if (c.size() == 1 &&
             std::string_view("\\`*_{}[]|>#~!").find(c[0]) != std::string_view::npos)
      (out += '\\') += c;
    else
      out += c;
  });
  return out;
}

std::string markdown_code_block(std::string_view text) {
  size_t run = 0, longest = 2;
  for (const char c : text) {
    run = c == '`' ? run + 1 : 0;
    longest = std::max(longest, run);
  }
  const std::string fence(longest + 1, '`');
  std::string body;
  for_each_character(text, [&](std::string_view c) { body += is_forbidden(c) ? kReplacement : c; });
  return fmt::format("{}\n{}{}{}\n", fence, body, body.ends_with('\n') ? "" : "\n", fence);
}

std::vector<double> nice_ticks(double low, double high) {
  if (!(high > low)) high = low + (low == 0 ? 1 : std::abs(low) * 0.1);
  const double rough = (high - low) / 6;
  const double power = std::pow(10, std::floor(std::log10(rough)));
  const double scaled = rough / power;
  const double step = power * (scaled <= 1 ? 1 : scaled <= 2 ? 2 : scaled <= 5 ? 5 : 10);
  std::vector<double> ticks;
  const double first = std::floor(low / step), last = std::ceil(high / step);
  for (double i = first; i <= last; ++i) ticks.push_back(i * step);
  return ticks;
}

std::string tick_text(double value) {
  if (value == std::floor(value) && std::abs(value) < 1e6) return fmt::format("{:.0f}", value);
  return fmt::format("{:.6g}", value);
}

std::string span_text(double seconds) {
  if (seconds < 0) return "-" + span_text(-seconds);
  if (seconds == 0) return "0 s";
  if (seconds < 0.9995) return fmt::format("{:.3g} ms", seconds * 1e3);
  if (seconds < 59.95) return fmt::format("{:.3g} s", seconds);
  const auto whole = static_cast<long long>(std::llround(seconds));
  if (whole < 3600) return fmt::format("{} min {:02} s", whole / 60, whole % 60);
  return fmt::format("{} h {:02} min", whole / 3600, whole % 3600 / 60);
}

std::string grouped(long long value) {
  std::string digits = fmt::format("{}", value < 0 ? -value : value);
  for (size_t at = digits.size(); at > 3; at -= 3) digits.insert(at - 3, "\u202F");
  return value < 0 ? "-" + digits : digits;
}

}  // namespace muster
