#include "data/python_stdlib.h"

#include <fmt/format.h>

#include <charconv>

namespace muster {
namespace {

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
  while (!text.empty() && (text.back() == ' ' || text.back() == '\t' || text.back() == '\r'))
    text.remove_suffix(1);
  return text;
}

bool is_stdlib(Files& files, const std::string& folder) {
  return files.stat(folder + "/os.py").ok();
}

// N of "python3.N", else -1.
int minor_version(std::string_view name) {
  constexpr std::string_view kPrefix = "python3.";
  if (!name.starts_with(kPrefix)) return -1;
  name.remove_prefix(kPrefix.size());
  int minor = -1;
  const auto [end, status] = std::from_chars(name.data(), name.data() + name.size(), minor);
  return status == std::errc{} && end == name.data() + name.size() ? minor : -1;
}

}  // namespace

Result<std::string> stdlib_of_pyvenv(std::string_view text) {
  std::string home, version;
  while (!text.empty()) {
    const size_t end = text.find('\n');
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
    const size_t equal = line.find('=');
    if (equal == std::string_view::npos) continue;
    const std::string_view key = trimmed(line.substr(0, equal)),
                           value = trimmed(line.substr(equal + 1));
    if (key == "home") home = value;
    if (key == "version" || key == "version_info") version = value;
  }
  const size_t first = version.find('.');
  const size_t second = first == std::string::npos ? first : version.find('.', first + 1);
  if (home.empty() || first == std::string::npos) {
    return Error(Code::corrupt, "pyvenv.cfg lacks 'home' or 'version'");
  }
  return std::string(parent_path(home)) + "/lib/python" + version.substr(0, second);
}

Result<std::string> find_python_stdlib(Files& files, const std::vector<std::string>& environments) {
  std::vector<std::string> tried;
  for (const std::string& environment : environments) {
    const std::string path = environment + "/pyvenv.cfg";
    const auto text = read_file(files, path);
    if (!text.ok()) {
      tried.push_back(path);
      continue;
    }
    MUSTER_TRY(const std::string folder, stdlib_of_pyvenv(*text).context(path));
    if (is_stdlib(files, folder)) return folder;
    tried.push_back(folder);
  }
  std::string best;
  int best_minor = -1;
  for (const char* root : {"/usr/local/lib", "/usr/lib"}) {
    const auto entries = files.list(root);
    tried.push_back(fmt::format("{}/python3.*", root));
    if (!entries.ok()) continue;
    for (const DirectoryEntry& entry : *entries) {
      const int minor = minor_version(entry.name);
      const std::string folder = fmt::format("{}/{}", root, entry.name);
      if (minor > best_minor && is_stdlib(files, folder)) best = folder, best_minor = minor;
    }
  }
  if (!best.empty()) return best;
  return Error(Code::not_found,
               fmt::format("no Python standard library was found; tried {}; install python3 or set "
                           "data.source = \"files\" and data.paths",
                           fmt::join(tried, ", ")));
}

}  // namespace muster
