#include "data/cache_folder.h"

namespace muster {

std::string cache_folder(const std::map<std::string, std::string>& environment) {
  const auto value = [&](const char* name) {
    const auto it = environment.find(name);
    return it == environment.end() ? std::string() : it->second;
  };
  if (const std::string set = value("MUSTER_CACHE"); !set.empty()) return set;
  if (const std::string set = value("XDG_CACHE_HOME"); !set.empty()) return set + "/muster";
  const std::string home = value("HOME");
  return (home.empty() ? std::string("/tmp") : home) + "/.cache/muster";
}

std::string spool_folder(const std::map<std::string, std::string>& environment) {
  return cache_folder(environment) + "/spool";
}

}  // namespace muster
