// Process descriptors: a handle that cannot mean another process after the pid is used again.
// Every function falls back or reports ENOSYS where the kernel is too old.
#pragma once

#include <sys/types.h>

#include "sys/owned_fd.h"

namespace muster {

// Invalid, with errno set, if there is no such process or no pidfd support.
OwnedFd open_pidfd(pid_t pid);

// Sends to the process itself. Returns 0 or errno.
int pidfd_signal(int pidfd, int signal_number);

}  // namespace muster
