#include "base/units.h"

#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <span>

namespace muster {
namespace {

struct Unit {
  std::string_view name;
  double factor;
};

constexpr Unit kByteUnits[] = {
    {"", 1},
    {"B", 1},
    {"KiB", 1024.0},
    {"MiB", 1048576.0},
    {"GiB", 1073741824.0},
    {"TiB", 1099511627776.0},
    {"kB", 1e3},
    {"KB", 1e3},
    {"MB", 1e6},
    {"GB", 1e9},
    {"TB", 1e12},
};
constexpr Unit kTimeUnits[] = {
    {"ns", 1}, {"us", 1e3}, {"ms", 1e6}, {"s", 1e9}, {"min", 60e9}, {"h", 3600e9}, {"d", 86400e9},
};

Result<int64_t> parse(std::string_view text, std::span<const Unit> units, std::string_view what,
                      std::string_view example) {
  double number = 0;
  const auto [end, status] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (status == std::errc{} && std::isfinite(number) && number >= 0) {
    std::string_view unit = text.substr(static_cast<size_t>(end - text.data()));
    while (!unit.empty() && unit.front() == ' ') unit.remove_prefix(1);
    for (const Unit& u : units) {
      if (u.name != unit) continue;
      const double value = std::round(number * u.factor);
      if (value < 9.2e18) return static_cast<int64_t>(value);
    }
  }
  std::string known;
  for (const Unit& u : units) {
    if (!u.name.empty()) known += fmt::format("{}{}", known.empty() ? "" : ", ", u.name);
  }
  return Error(Code::invalid_argument,
               fmt::format("'{}' is not a {}: write for example {}; units are {}", text, what,
                           example, known));
}

std::string three_digits(double value) {
  if (value >= 100) return fmt::format("{:.0f}", value);
  if (value >= 10) return fmt::format("{:.1f}", value);
  return fmt::format("{:.2f}", value);
}

}  // namespace

Result<Bytes> parse_bytes(std::string_view text) {
  MUSTER_TRY(const int64_t count, parse(text, kByteUnits, "byte count", "64MiB"));
  return Bytes{count};
}

Result<Nanos> parse_duration(std::string_view text) {
  MUSTER_TRY(const int64_t count, parse(text, kTimeUnits, "duration", "250ms"));
  return Nanos{count};
}

std::string format_bytes(Bytes bytes) {
  double value = static_cast<double>(bytes.count);
  static constexpr std::string_view names[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  size_t i = 0;
  while (value >= 1024 && i + 1 < std::size(names)) value /= 1024, ++i;
  return i == 0 ? fmt::format("{} B", bytes.count)
                : fmt::format("{} {}", three_digits(value), names[i]);
}

std::string format_duration(Nanos duration) {
  const double ns = static_cast<double>(duration.count());
  if (ns < 1e3) return fmt::format("{} ns", duration.count());
  if (ns < 1e6) return three_digits(ns / 1e3) + " us";
  if (ns < 1e9) return three_digits(ns / 1e6) + " ms";
  if (ns < 120e9) return three_digits(ns / 1e9) + " s";
  const int64_t s = duration.count() / 1'000'000'000;
  if (s < 7200) return fmt::format("{} min {:02} s", s / 60, s % 60);
  return fmt::format("{} h {:02} min", s / 3600, s / 60 % 60);
}

std::string format_count(double count) {
  static constexpr std::string_view names[] = {"", " k", " M", " G", " T", " P"};
  size_t i = 0;
  while (count >= 1000 && i + 1 < std::size(names)) count /= 1000, ++i;
  return three_digits(count) + std::string(names[i]);
}

}  // namespace muster
