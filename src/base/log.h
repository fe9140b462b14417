// Structured log: one line per record, "time level message key=value …" or JSON, written with one
// write(2) so that lines of several processes do not mix. The logger is passed down from main like
// every other seam.
#pragma once

#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <variant>

#include "base/clock.h"

namespace muster {

enum class LogLevel { debug, info, warning, error };

struct LogField {
  std::string_view key;
  std::variant<int64_t, double, std::string> value;

  LogField(std::string_view k, std::string v) : key(k), value(std::move(v)) {}
  LogField(std::string_view k, std::string_view v) : key(k), value(std::string(v)) {}
  LogField(std::string_view k, const char* v) : key(k), value(std::string(v)) {}
  LogField(std::string_view k, double v) : key(k), value(v) {}
  template <class T>
    requires std::is_integral_v<T>
  LogField(std::string_view k, T v) : key(k), value(static_cast<int64_t>(v)) {}
};

// Safe from any thread.
class Log {
 public:
  enum class Format { text, json };

  // `clock` must outlive the log. `fd` stays open and owned by the caller.
  Log(const Clock& clock, int fd, LogLevel least, Format format)
      : clock_(clock), fd_(fd), least_(least), format_(format) {}

  void write(LogLevel level, std::string_view message, std::initializer_list<LogField> fields = {});
  void debug(std::string_view message, std::initializer_list<LogField> fields = {}) {
    write(LogLevel::debug, message, fields);
  }
  void info(std::string_view message, std::initializer_list<LogField> fields = {}) {
    write(LogLevel::info, message, fields);
  }
  void warning(std::string_view message, std::initializer_list<LogField> fields = {}) {
    write(LogLevel::warning, message, fields);
  }
  void error(std::string_view message, std::initializer_list<LogField> fields = {}) {
    write(LogLevel::error, message, fields);
  }

 private:
  const Clock& clock_;
  int fd_;
  LogLevel least_;
  Format format_;
};

}  // namespace muster
