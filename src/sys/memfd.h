// Anonymous memory behind a descriptor: shared between processes, gone with its last holder.
#pragma once

#include <cstdint>

#include "base/result.h"
#include "sys/owned_fd.h"

namespace muster {

// `name` shows in /proc only. The descriptor is close-on-exec; the size is fixed by sealing, so a
// reader that maps it can never be hit by SIGBUS. Errors: io, no_space.
Result<OwnedFd> make_memfd(const char* name, int64_t bytes);

}  // namespace muster
