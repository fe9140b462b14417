// ProcessCaps: what this kernel and this container let us do with processes, probed once at start.
// Each capability can be switched off (MUSTER_DISABLE=clone3,cgroup,…), so that every fallback can
// be tested anywhere.
#pragma once

#include <string>
#include <string_view>

#include "sys/owned_fd.h"

namespace muster {

struct ProcessCaps {
  bool clone3 = false;         // clone3(2) with CLONE_PIDFD; else clone(2)
  bool pidfd = false;          // pidfd_open(2)
  bool close_range = false;    // close_range(2) with CLOSE_RANGE_CLOEXEC; else a loop
  bool subreaper = false;      // PR_SET_CHILD_SUBREAPER
  bool children_file = false;  // /proc/…/children; else all of /proc is scanned
  bool cgroup = true;  // allowed to try a cgroup v2 child group (cgroup.h says whether it works)

  std::string to_string() const;  // "clone3 pidfd … no:children"
};

// `disabled`: comma-separated names as in to_string(); unknown names are ignored.
ProcessCaps probe_process_caps(std::string_view disabled);

}  // namespace muster
