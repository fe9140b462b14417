#include "sys/process_tree.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <string>
#include <unordered_map>

#include "sys/owned_fd.h"

namespace muster {
namespace {

std::string slurp(const std::string& path) {
  std::string text;
  OwnedFd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd) return text;
  char buffer[4096];
  ssize_t n;
  while ((n = read(fd.get(), buffer, sizeof buffer)) > 0)
    text.append(buffer, static_cast<size_t>(n));
  return text;
}

std::vector<pid_t> numeric_entries(const std::string& folder) {
  std::vector<pid_t> pids;
  DIR* dir = opendir(folder.c_str());
  if (dir == nullptr) return pids;
  while (const dirent* entry = readdir(dir))
    if (entry->d_name[0] >= '1' && entry->d_name[0] <= '9')
      pids.push_back(static_cast<pid_t>(std::atoi(entry->d_name)));
  closedir(dir);
  return pids;
}

void append_pids(const std::string& text, std::vector<pid_t>& out) {
  const char* at = text.c_str();
  char* end;
  for (long pid = std::strtol(at, &end, 10); end != at; pid = std::strtol(at, &end, 10)) {
    out.push_back(static_cast<pid_t>(pid));
    at = end;
  }
}

// Parent of each process, from the fourth field of /proc/<pid>/stat; the second, in parentheses,
// may hold anything.
std::unordered_map<pid_t, std::vector<pid_t>> scan_proc() {
  std::unordered_map<pid_t, std::vector<pid_t>> children;
  for (pid_t pid : numeric_entries("/proc")) {
    const std::string stat = slurp("/proc/" + std::to_string(pid) + "/stat");
    const size_t close = stat.rfind(')');
    if (close == std::string::npos || close + 4 >= stat.size()) continue;
    children[static_cast<pid_t>(std::atoi(stat.c_str() + close + 4))].push_back(pid);
  }
  return children;
}

bool contains(const std::vector<pid_t>& list, pid_t pid) {
  return std::find(list.begin(), list.end(), pid) != list.end();
}

// Waits for children that have ended, without blocking; false when there is no child at all.
bool reap_ended(const SweepOptions& options) {
  for (;;) {
    siginfo_t info;
    info.si_pid = 0;
    if (waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) != 0) return errno == EINTR;
    if (info.si_pid == 0) return true;
    options.reap(info.si_pid);
  }
}

// Children of the caller, or everything below it, without `keep` and what is below those. Without
// children files one scan of /proc serves the whole tree: a scan for each process would take
// seconds.
std::vector<pid_t> victims(const SweepOptions& options, bool whole_tree) {
  std::unordered_map<pid_t, std::vector<pid_t>> all;
  if (!options.children_file) all = scan_proc();
  const auto children = [&](pid_t pid) {
    return options.children_file ? children_of(pid, true) : all[pid];
  };
  std::vector<pid_t> found = children(getpid());
  std::erase_if(found, [&](pid_t pid) { return contains(options.keep, pid); });
  if (!whole_tree) return found;
  for (size_t i = 0; i < found.size(); ++i)
    for (pid_t pid : children(found[i])) found.push_back(pid);
  return found;
}

// Stops the tree until a scan finds nobody new, so that it cannot fork faster than it is killed.
void stop_tree(const SweepOptions& options) {
  std::vector<pid_t> stopped;
  for (int scan = 0; scan < 20; ++scan) {
    bool grew = false;
    for (pid_t pid : victims(options, true)) {
      if (contains(stopped, pid)) continue;
      stopped.push_back(pid);
      grew = kill(pid, SIGSTOP) == 0 || grew;
    }
    if (!grew) return;
  }
}

}  // namespace

std::vector<pid_t> children_of(pid_t pid, bool children_file) {
  std::vector<pid_t> found;
  if (!children_file) {
    auto all = scan_proc();
    return all[pid];
  }
  const std::string tasks = "/proc/" + std::to_string(pid) + "/task/";
  for (pid_t thread : numeric_entries(tasks))
    append_pids(slurp(tasks + std::to_string(thread) + "/children"), found);
  return found;
}

bool is_stopped(pid_t pid) {
  const std::string stat = slurp("/proc/" + std::to_string(pid) + "/stat");
  const size_t close = stat.rfind(')');
  return close != std::string::npos && close + 2 < stat.size() &&
         (stat[close + 2] == 'T' || stat[close + 2] == 't');
}

std::vector<pid_t> descendants_of(pid_t root, bool children_file) {
  std::vector<pid_t> found;
  if (!children_file) {
    auto all = scan_proc();
    found = all[root];
    for (size_t i = 0; i < found.size(); ++i) {
      const std::vector<pid_t> below = all[found[i]];
      found.insert(found.end(), below.begin(), below.end());
    }
    return found;
  }
  found = children_of(root, true);
  for (size_t i = 0; i < found.size(); ++i)
    for (pid_t pid : children_of(found[i], true)) found.push_back(pid);
  return found;
}

std::vector<pid_t> sweep_descendants(const SweepOptions& options) {
  RealClock clock;
  const Nanos deadline = clock.now() + options.limit;
  int clean_scans = 0;
  for (int round = 0;; ++round) {
    if (!reap_ended(options)) return {};
    if (options.before_round) options.before_round();
    // Two rounds of killing direct children end ordinary trees, since orphans come to us; what is
    // left after that may be forking, so it is stopped first.
    const bool whole_tree = round >= 2;
    if (whole_tree) stop_tree(options);
    const std::vector<pid_t> found = victims(options, whole_tree);
    for (pid_t pid : found) kill(pid, SIGKILL);
    if (found.empty()) {
      // Without `keep`, waitid has the last word; with it, two clean scans do.
      if (!options.keep.empty() && ++clean_scans == 2) return {};
    } else {
      clean_scans = 0;
    }
    if (clock.now() >= deadline) return found;
    if (!found.empty()) {
      // SIGKILL takes effect when the victim is next scheduled. Wait for one, at most a few ms.
      siginfo_t info;
      info.si_pid = 0;
      for (int wait = 0; wait < 20; ++wait) {
        if (waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) != 0) break;
        if (info.si_pid != 0) break;
        clock.sleep_for(std::chrono::microseconds{200});
      }
    }
  }
}

}  // namespace muster
