// Starting programs from a single-threaded process, as fast as the kernel allows. A child borrows
// the parent's memory until its exec, so nothing is copied; the pidfd comes from the clone itself
// and the child is born inside its cgroup. Where the machine allows it, several children are on
// their way to exec at once and the parent does not wait for any of them.
#pragma once

#include <signal.h>
#include <sys/resource.h>
#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "sys/owned_fd.h"
#include "sys/process_caps.h"

namespace muster {

// What a child is to become. It leads a session and a group of its own, gets SIGKILL when the
// launching process dies, has an empty signal mask and the launcher's dispositions.
struct ExecPlan {
  std::string file;  // looked up already
  // Null-terminated; they point into `memory` or to what outlives the launch.
  std::vector<char*> argv, environment;
  const char* directory = "";  // "" = the launcher's
  std::vector<char> memory;
  int stdio[3] = {-1, -1, -1};  // sources, above 2 + kMaxExtraFds; needed until launch() returns
  std::vector<int> extra;       // become 3, 4, …; sources as above
  const rlimit* open_files = nullptr;  // null = leave
  int cgroup_fd = -1;                  // -1 = the launcher's group
};

class ExecLauncher {
 public:
  explicit ExecLauncher(const ProcessCaps& caps);
  ~ExecLauncher();  // waits for children on their way to exec

  struct Outcome {
    uint64_t id = 0;
    pid_t pid = -1;    // also of a child whose exec failed: it is to be reaped
    OwnedFd pidfd;     // valid where the kernel gave one
    int error = 0;     // errno; 0 = the program runs (or has run)
    std::string what;  // of an error: "exec 'x'", "enter directory 'y'"
  };

  // Every signal is blocked by the caller. The outcome comes from settled(), at once or later.
  void launch(uint64_t id, ExecPlan plan);
  // Outcomes known now, in any order; with `all`, waits for every child on its way.
  std::vector<Outcome> settled(bool all);
  bool pending() const { return pending_ > 0 || !outcomes_.empty(); }

 private:
  struct Slot;
  Slot& free_slot();
  void collect(bool wait_one);

  ProcessCaps caps_;
  std::vector<std::unique_ptr<Slot>> slots_;
  std::vector<Outcome> outcomes_;
  size_t pending_ = 0;
};

// Whether a child can be born into this group and lives there: 0, or why not (errno; EOWNERDEAD
// for one that is killed at birth).
int try_cgroup(const ProcessCaps& caps, int cgroup_fd);

// The file that `name` would run: as it is when it holds a '/', else by `path` (the value of PATH).
// Relative names count from `directory` unless that is empty. Errors: not_found and permission name
// what was looked for.
Result<std::string> find_executable(const std::string& name, const std::string& directory,
                                    const std::string& path);

}  // namespace muster
