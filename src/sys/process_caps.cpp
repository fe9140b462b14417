#include "sys/process_caps.h"

#include <linux/close_range.h>
#include <linux/sched.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>

#include "sys/pidfd.h"

namespace muster {

static bool listed(std::string_view list, std::string_view name) {
  while (!list.empty()) {
    const size_t comma = list.find(',');
    if (list.substr(0, comma) == name) return true;
    if (comma == std::string_view::npos) break;
    list.remove_prefix(comma + 1);
  }
  return false;
}

static bool has_clone3() {
#if defined(__x86_64__)
  // A structure that is too small is refused with EINVAL by a kernel (or filter) that knows the
  // call.
  return syscall(SYS_clone3, nullptr, size_t{0}) == -1 && errno != ENOSYS && errno != EPERM;
#else
  return false;
#endif
}

static bool has_close_range() {
  // An empty range above every descriptor changes nothing.
  return syscall(SYS_close_range, ~0U - 1, ~0U - 1, CLOSE_RANGE_CLOEXEC) == 0;
}

static bool has_subreaper() {
  int is = 0;
  return prctl(PR_GET_CHILD_SUBREAPER, &is) == 0;
}

ProcessCaps probe_process_caps(std::string_view disabled) {
  ProcessCaps caps;
  caps.clone3 = !listed(disabled, "clone3") && has_clone3();
  caps.pidfd = !listed(disabled, "pidfd") && open_pidfd(getpid()).valid();
  caps.close_range = !listed(disabled, "close_range") && has_close_range();
  caps.subreaper = !listed(disabled, "subreaper") && has_subreaper();
  const std::string children =
      "/proc/self/task/" + std::to_string(syscall(SYS_gettid)) + "/children";
  caps.children_file = !listed(disabled, "children") && access(children.c_str(), R_OK) == 0;
  caps.cgroup = !listed(disabled, "cgroup");
  return caps;
}

std::string ProcessCaps::to_string() const {
  std::string text;
  const auto add = [&](const char* name, bool has) {
    if (!text.empty()) text += ' ';
    if (!has) text += "no:";
    text += name;
  };
  add("clone3", clone3);
  add("pidfd", pidfd);
  add("close_range", close_range);
  add("subreaper", subreaper);
  add("children", children_file);
  add("cgroup", cgroup);
  return text;
}

}  // namespace muster
