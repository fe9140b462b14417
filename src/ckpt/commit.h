// Commit: makes shards a checkpoint. A checkpoint exists if and only if its manifest verifies,
// whatever its folder is called; the rename of the manifest, made durable, is the one moment at
// which it comes to be. Order on disk (each step durable before the next begins):
//   begin:  step-N-<uuid>.tmp/ made, parent synced
//   ranks:  shards written, synced, folder synced (shard_writer.h)
//   commit: coverage proved; attachments; manifest.tmp written, synced, renamed to manifest.json;
//           folder synced = commit point; folder renamed without .tmp, parent synced; LATEST
//           replaced
// LATEST names the newest folder for people and scripts; nothing in here reads it.
//
// Blocking functions without state; the coordinator calls them, with the run's lock held.
#pragma once

#include <string>
#include <vector>

#include "base/random.h"
#include "base/result.h"
#include "ckpt/manifest.h"
#include "sys/files.h"

namespace muster {

inline constexpr std::string_view kLatestName = "LATEST";
inline constexpr std::string_view kOpenSuffix = ".tmp";  // of a folder not yet renamed

std::string new_uuid(Random& random);  // 32 hexadecimal digits
std::string folder_name(int64_t step, const std::string& uuid);

// Makes the open folder below `checkpoints` (made if missing; its own parent must exist) and
// returns its path, which every rank gets.
Result<std::string> begin_checkpoint(Files& files, const std::string& checkpoints, int64_t step,
                                     const std::string& uuid);
// Removes an open folder; for a save that failed. Best effort: what cannot be removed now is
// removed by apply_retention (retention.h).
Status abandon_checkpoint(Files& files, const std::string& folder);

struct Attachment {
  std::string name;  // a file beside the shards, e.g. "tokenizer.json"
  std::string bytes;
};

struct CommitRequest {
  std::string folder;                // from begin_checkpoint
  Manifest manifest;                 // all but tensors and files
  std::vector<ShardReport> reports;  // of all ranks
  std::vector<TensorInfo> expected;  // every tensor of the state
  std::vector<Attachment> attachments;
};

struct Committed {
  std::string folder;  // where it is now
  // What failed after the commit point: the checkpoint exists all the same, the next start puts the
  // names right.
  std::vector<std::string> warnings;
};

// Errors: invalid_argument when the reports do not make a whole state, io, no_space. The folder is
// left for abandon_checkpoint.
Result<Committed> commit_checkpoint(Files& files, const CommitRequest& request);

// Renames `folder` (….tmp) to its final name and syncs the parent; also finishes what a crash
// interrupted. Returns the new path.
Result<std::string> finish_rename(Files& files, const std::string& folder);

}  // namespace muster
