// Scan: which checkpoints does a run have, and which is the newest that everybody can use? Looks at
// every folder; LATEST is not asked.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "ckpt/verify.h"

namespace muster {

struct FoundCheckpoint {
  std::string folder;  // its path; where names differ between ranks, the uuid tells it
  std::string uuid;
  int64_t step = 0, epoch = 0, created = 0;
  int64_t bytes = 0;
};

struct BadFolder {
  std::string folder;
  bool has_manifest = false;
  std::vector<std::string> problems;
};

struct Scan {
  std::vector<FoundCheckpoint> valid;  // newest first
  std::vector<BadFolder> invalid;      // open, damaged or foreign folders
};

// Newest first: higher step, then higher epoch, then later created, then uuid.
bool newer(const FoundCheckpoint& a, const FoundCheckpoint& b);

// A missing folder holds no checkpoint. Errors: io, permission.
Result<Scan> scan_checkpoints(Files& files, const std::string& checkpoints, Depth depth);

// The newest by scan that verifies fully; folders that fail are passed over. Errors: not_found.
Result<FoundCheckpoint> newest_whole_checkpoint(Files& files, const std::string& checkpoints);

// For agreement among ranks: each encodes what it can use, all get all lists and compute the same.
std::string encode_found(const std::vector<FoundCheckpoint>& found);
Result<std::vector<FoundCheckpoint>> decode_found(std::string_view bytes);  // errors: corrupt
// The newest whose uuid is in every list (folder as in the first list); nothing if there is none.
std::optional<FoundCheckpoint> newest_common(
    const std::vector<std::vector<FoundCheckpoint>>& lists);

}  // namespace muster
