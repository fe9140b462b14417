// CheckpointReader: brings boxes of tensors from a checkpoint's folder into memory. No byte is
// handed out before the checksum of the chunk it lies in was found right; only chunks that hold
// wanted bytes are read.
//
// One thread. Opens shards as needed and closes them at the end. Memory: one chunk per reader.
#pragma once

#include <map>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "ckpt/manifest.h"
#include "sys/files.h"

namespace muster {

class CheckpointReader {
 public:
  // Reads and checks the manifest. Errors: not_found without one, corrupt.
  static Result<CheckpointReader> open(Files& files, std::string_view folder);
  ~CheckpointReader();
  CheckpointReader(CheckpointReader&& other) noexcept;
  CheckpointReader& operator=(CheckpointReader&&) = delete;

  const Manifest& manifest() const { return manifest_; }
  const std::string& folder() const { return folder_; }

  // Fills `out` with box `wanted` of the tensor, row-major without gaps.
  // Errors: invalid_argument when the box leaves the tensor or `out` has another length; corrupt
  // when a chunk fails its checksum or a file its length (`out` is then undefined).
  Status load(const StoredTensor& tensor, const Box& wanted, std::span<std::byte> out);
  // The bytes of a file that holds no tensor. Errors: not_found, corrupt.
  Result<std::string> attachment(std::string_view name);

 private:
  CheckpointReader(Files& files, std::string folder) : files_(&files), folder_(std::move(folder)) {}
  Result<FileHandle> handle_of(size_t file);
  Status read_range(size_t file, int64_t begin, std::span<std::byte> out);
  Status read_chunk(size_t file, int64_t chunk, std::span<std::byte> out);
  Error damaged(size_t file, const std::string& problem) const;

  Files* files_;
  std::string folder_;
  Manifest manifest_;
  std::map<size_t, FileHandle> handles_;
  // The last chunk that was needed in part.
  std::vector<std::byte> chunk_;
  size_t chunk_file_ = SIZE_MAX;
  int64_t chunk_index_ = -1;
};

// Reads and checks the manifest of a folder. Errors: not_found, corrupt.
Result<Manifest> read_manifest(Files& files, std::string_view folder);

// Whether a checkpoint holds exactly these tensors. Errors: invalid_argument when it lacks one, has
// it with another dtype, shape or layout, or holds others.
Status check_tensors(const Manifest& manifest, const std::vector<TensorInfo>& wanted);

// What a State needs: its tensors' held boxes from the checkpoint, and the scalars.
// Errors: those of check_tensors; corrupt.
Status restore_state(CheckpointReader& reader, State& state);

}  // namespace muster
