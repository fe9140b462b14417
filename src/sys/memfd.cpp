#include "sys/memfd.h"

#include <fcntl.h>
#include <sys/mman.h>

#include <cerrno>

namespace muster {

Result<OwnedFd> make_memfd(const char* name, int64_t bytes) {
  OwnedFd fd(memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!fd) return errno_error(errno, "memfd_create");
  if (ftruncate(fd.get(), bytes) != 0) return errno_error(errno, "set the size of a memfd");
  if (fcntl(fd.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0)
    return errno_error(errno, "seal a memfd");
  return fd;
}

}  // namespace muster
