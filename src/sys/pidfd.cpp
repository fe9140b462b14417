#include "sys/pidfd.h"

#include <sys/syscall.h>

namespace muster {

OwnedFd open_pidfd(pid_t pid) {
  return OwnedFd(static_cast<int>(syscall(SYS_pidfd_open, pid, 0)));
}

}  // namespace muster
