// One clone + exec: the fastest way to start a program from a single-threaded process. The child
// borrows the parent's memory until exec (vfork), so nothing is copied; the pidfd comes from the
// clone itself and the child is born inside its cgroup.
#pragma once

#include <signal.h>
#include <sys/resource.h>
#include <sys/types.h>

#include <string>

#include "base/result.h"
#include "sys/process_caps.h"
#include "sys/owned_fd.h"

namespace muster {

// All pointers must stay valid during the call. The caller has every signal blocked.
struct ExecPlan {
  const char* path;         // executable, already looked up
  char* const* argv;        // null-terminated
  char* const* envp;        // null-terminated
  char* const* shell_argv;  // "/bin/sh", path, args: for scripts without "#!"
  const char* directory;    // "" = the caller's
  int stdio[3];             // source descriptors, all above 2 + kMaxExtraFds
  const int* extra;         // become 3, 4, …; sources as above
  size_t extra_count;
  const rlimit* open_files;  // null = leave
  pid_t parent;              // the caller's pid; the child dies with it
  int cgroup_fd;             // -1 = the caller's group
};

struct ExecResult {
  pid_t pid = -1;
  OwnedFd pidfd;          // valid where the kernel gave one
  int error = 0;           // errno; 0 = the program runs
  const char* stage = "";  // what failed: "clone", "chdir", "exec"
};

// The child leads a session and a group of its own and gets SIGKILL when the calling thread's
// process dies. Signal mask empty, dispositions as the caller's.
ExecResult exec_child(const ExecPlan& plan, const ProcessCaps& caps);

// The file that `name` would run: as it is when it holds a '/', else by `path` (the value of PATH).
// Relative names count from `directory` unless that is empty. Errors: not_found and permission name
// what was looked for.
Result<std::string> find_executable(const std::string& name, const std::string& directory,
                                    const std::string& path);

}  // namespace muster
