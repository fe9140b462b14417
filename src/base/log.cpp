#include "base/log.h"

#include <fmt/format.h>
#include <unistd.h>

#include <ctime>
#include <nlohmann/json.hpp>

namespace muster {
namespace {

std::string_view name_of(LogLevel level) {
  switch (level) {
    case LogLevel::debug:
      return "debug";
    case LogLevel::info:
      return "info";
    case LogLevel::warning:
      return "warning";
    case LogLevel::error:
      return "error";
  }
  return "?";
}

std::string iso_time(Nanos wall) {
  const time_t seconds = wall.count() / 1'000'000'000;
  tm utc{};
  gmtime_r(&seconds, &utc);
  return fmt::format("{:04}-{:02}-{:02}T{:02}:{:02}:{:02}.{:03}Z", utc.tm_year + 1900,
                     utc.tm_mon + 1, utc.tm_mday, utc.tm_hour, utc.tm_min, utc.tm_sec,
                     wall.count() / 1'000'000 % 1000);
}

// A value with blanks, quotes or control characters is written as a JSON string, so that a line
// stays one line.
std::string text_of(const std::variant<int64_t, double, std::string>& value) {
  if (const auto* i = std::get_if<int64_t>(&value)) return fmt::format("{}", *i);
  if (const auto* d = std::get_if<double>(&value)) return fmt::format("{:.6g}", *d);
  const auto& s = std::get<std::string>(value);
  const bool plain = !s.empty() && s.find_first_of(" \t\n\r\"=\\") == std::string::npos;
  return plain ? s
               : nlohmann::json(s).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

}  // namespace

void Log::write(LogLevel level, std::string_view message, std::initializer_list<LogField> fields) {
  if (level < least_) return;
  std::string line;
  if (format_ == Format::json) {
    nlohmann::ordered_json record;
    record["time"] = iso_time(clock_.wall());
    record["level"] = name_of(level);
    record["message"] = message;
    for (const LogField& f : fields)
      std::visit([&](const auto& v) { record[std::string(f.key)] = v; }, f.value);
    line = record.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  } else {
    line = fmt::format("{} {:<7} {}", iso_time(clock_.wall()), name_of(level), message);
    for (const LogField& f : fields) line += fmt::format(" {}={}", f.key, text_of(f.value));
  }
  line += '\n';
  // A log that cannot be written has nowhere to say so.
  [[maybe_unused]] const ssize_t written = ::write(fd_, line.data(), line.size());
}

}  // namespace muster
