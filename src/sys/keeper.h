// The keeper: a small single-threaded process in a session of its own, parent of all workers. It
// starts them on request, reports how they ended, and ends everything below it when the supervisor
// dies. It is a subreaper, so orphans of workers come to it.
//
// Rules: no file besides its socket, the supervisor's pidfd and the cgroup is open; all signals are
// blocked (a termination signal sent to it ends the job); it allocates only per message.
// Design: docs/design/runtime.md.
#pragma once

#include <sys/resource.h>

#include "sys/owned_fd.h"
#include "sys/process_caps.h"

namespace muster {

struct KeeperSetup {
  int socket;               // SOCK_SEQPACKET, to the supervisor
  int supervisor_pidfd;     // -1: only the socket tells of its death
  const char* cgroup_path;  // a group for groups of workers; null: none
  ProcessCaps caps;
  rlimit open_files;  // for workers: the limit before the supervisor raised its own
};

// Runs in a process just forked; never returns.
[[noreturn]] void keeper_main(const KeeperSetup& setup);

}  // namespace muster
