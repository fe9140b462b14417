// Process descriptors: a handle that cannot mean another process after the pid is used again.
#pragma once

#include <sys/types.h>

#include "sys/owned_fd.h"

namespace muster {

// Invalid, with errno set, if there is no such process or no pidfd support.
OwnedFd open_pidfd(pid_t pid);

}  // namespace muster
