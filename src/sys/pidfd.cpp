#include "sys/pidfd.h"

#include <sys/syscall.h>

#include <cerrno>

namespace muster {

OwnedFd open_pidfd(pid_t pid) {
  return OwnedFd(static_cast<int>(syscall(SYS_pidfd_open, pid, 0)));
}

int pidfd_signal(int pidfd, int signal_number) {
  return syscall(SYS_pidfd_send_signal, pidfd, signal_number, nullptr, 0) == 0 ? 0 : errno;
}

}  // namespace muster
