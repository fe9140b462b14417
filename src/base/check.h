// MUSTER_CHECK: what only a bug can cause. On in release; a failed check prints the place, the
// condition and the values given, and stops the process. What the world can cause is a Result
// (result.h).
#pragma once

#include <sstream>
#include <string>

namespace muster {

// Writes one line to standard error and aborts. Async-signal-unsafe.
[[noreturn]] void check_failed(const char* file, int line, const char* condition,
                               const std::string& values);

namespace detail {
inline std::string check_values() {
  return {};
}
template <class... T>
std::string check_values(const T&... value) {
  std::ostringstream out;
  const char* separator = "";
  ((out << separator << value, separator = ", "), ...);
  return out.str();
}
}  // namespace detail
}  // namespace muster

#define MUSTER_CHECK(condition, ...)                                       \
  do {                                                                     \
    if (!(condition)) [[unlikely]]                                         \
      ::muster::check_failed(__FILE__, __LINE__, #condition,               \
                             ::muster::detail::check_values(__VA_ARGS__)); \
  } while (false)

#ifdef NDEBUG
#define MUSTER_DCHECK(condition, ...) static_cast<void>(0)
#else
#define MUSTER_DCHECK(condition, ...) MUSTER_CHECK(condition __VA_OPT__(, ) __VA_ARGS__)
#endif
