// Spool: a compressed file made readable at random by decompressing it once into a cache folder.
#pragma once

#include <string>

#include "base/random.h"
#include "base/result.h"
#include "sys/files.h"

namespace muster {

// Decompresses the zstd file `path` (any number of frames) into `cache_folder` under a name made
// from its content hash, and returns that path; a file spooled before is reused. The name appears
// only when the bytes are complete; until then they lie under a name of their own, drawn from
// `random`, so that any number of processes may spool the same file at once. Errors:
// invalid_argument without a cache folder, corrupt with the offset reached, no_space.
Result<std::string> spool_zstd(Files& files, Random& random, const std::string& path,
                               const std::string& cache_folder);

}  // namespace muster
