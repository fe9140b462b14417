// The engines behind RealFiles::make_queue: io_uring where the kernel lets us, else a small pool of
// threads that call pread and pwrite. Both keep the contract of IoQueue in files.h.
#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include "base/result.h"
#include "sys/files.h"

namespace muster {

// Errors: unsupported, naming what the kernel said (io_uring switched off by sysctl or seccomp, too
// old a kernel, no memory to lock); the caller falls back to threads.
Result<std::unique_ptr<IoQueue>> make_uring_queue(size_t depth);

// `why` ends up in engine(): "threads: <why>".
Result<std::unique_ptr<IoQueue>> make_thread_queue(size_t depth, const std::string& why);

}  // namespace muster
