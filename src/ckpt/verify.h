// Verify: is a folder a whole checkpoint? Blocking, without state; reads only.
#pragma once

#include <string>
#include <vector>

#include "ckpt/manifest.h"
#include "sys/files.h"

namespace muster {

enum class Depth {
  quick,  // the manifest's digest and coverage; every file's length; every shard's own header and
          // uuid
  full,   // also every checksum of every byte, and every box's content hash
};

struct Verdict {
  Manifest manifest;                  // empty when it could not be read
  std::vector<std::string> problems;  // each names its file; empty: valid
  bool valid() const { return problems.empty(); }
};

// All problems are listed (of a file with many wrong chunks, the first ten and the count).
Verdict verify_checkpoint(Files& files, std::string_view folder, Depth depth);

}  // namespace muster
