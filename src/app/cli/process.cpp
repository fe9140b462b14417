#include "app/cli/process.h"

#include <unistd.h>

#include <cstdlib>
#include <cstring>

namespace muster {
namespace {

std::string own_path() {
  char buffer[4096];
  const ssize_t n = readlink("/proc/self/exe", buffer, sizeof buffer);
  return n > 0 ? std::string(buffer, static_cast<size_t>(n)) : "muster";
}

LogLevel log_level() {
  const char* level = std::getenv("MUSTER_LOG");
  return level != nullptr && std::strcmp(level, "debug") == 0 ? LogLevel::debug : LogLevel::info;
}

}  // namespace

std::map<std::string, std::string> current_environment() {
  std::map<std::string, std::string> map;
  for (char** e = environ; *e != nullptr; ++e) {
    const char* equal = std::strchr(*e, '=');
    if (equal != nullptr) map[std::string(*e, static_cast<size_t>(equal - *e))] = equal + 1;
  }
  return map;
}

ProcessSeams::ProcessSeams() : log_(clock_, STDERR_FILENO, log_level(), Log::Format::text) {}

World ProcessSeams::world() {
  return {clock_, random_, log_, current_environment(), own_path()};
}

}  // namespace muster
