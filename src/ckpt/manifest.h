// Manifest: the one file that makes a folder a checkpoint. It names every file with its length and
// checksums, every tensor with the places of its bytes, and all the state that is not a tensor.
//
// On disk: one line of canonical JSON, {"format":…,"xxh3":…,"body":{…}}, where xxh3 is XXH3-128 of
// all other bytes of the file. There is exactly one text per manifest: bytes that differ from it in
// any way (white space, order, repeated or unknown keys) are refused as corrupt.
//
// Plain values and pure functions. Format: docs/formats/checkpoint.md.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/hash.h"
#include "base/result.h"
#include "ckpt/state.h"

namespace muster {

inline constexpr std::string_view kManifestFormat = "muster-checkpoint-1";
inline constexpr std::string_view kManifestName = "manifest.json";
inline constexpr int64_t kChecksumChunk = int64_t{1} << 20;  // bytes under one CRC32C

struct StoredBox {
  Box box;
  size_t file = 0;             // index into Manifest::files
  int64_t begin = 0, end = 0;  // bytes of that file
  Hash128 xxh3;                // of those bytes
  bool operator==(const StoredBox&) const = default;
};

struct StoredTensor {
  TensorInfo info;
  std::vector<StoredBox> boxes;
  bool operator==(const StoredTensor&) const = default;
};

struct StoredFile {
  std::string name;  // inside the checkpoint's folder; no '/'
  int64_t size = 0;
  std::vector<uint32_t> crc32c;  // of each kChecksumChunk, the last one shorter
  bool operator==(const StoredFile&) const = default;
};

// Choices that change the numbers a run computes; resuming under others is refused or announced.
struct Numerics {
  std::string mode;           // "strict", "fast"
  int64_t k_blocks = 0;       // parts of every inner product
  int64_t micro_batches = 0;  // V: micro-batches per step
  std::map<std::string, std::string> choices;
  bool operator==(const Numerics&) const = default;
};

struct Manifest {
  std::string uuid;     // 32 hexadecimal digits, drawn for each save
  std::string parent;   // uuid of the checkpoint the run went on from; may be empty
  int64_t epoch = 0;    // membership epoch of the writers
  int64_t created = 0;  // wall clock, nanoseconds since 1970
  ScalarState scalars;
  std::string config;     // text of the run's configuration (UTF-8); stored with its hash
  std::string tokenizer;  // fingerprint of the tokenizer; empty without one
  Numerics numerics;
  std::vector<StoredTensor> tensors;  // sorted by name
  std::vector<StoredFile> files;      // sorted by name
  bool operator==(const Manifest&) const = default;

  const StoredTensor* find(std::string_view name) const;
  int64_t total_bytes() const;  // of all files
};

// Everything that can be wrong with a manifest by itself: names sorted and unique, boxes inside
// their tensors, disjoint and complete, byte ranges inside their files, disjoint and as long as box
// and dtype say, a checksum for every chunk. Errors: invalid_argument.
Status check_manifest(const Manifest& manifest);

// Errors: invalid_argument as check_manifest, or text that is not UTF-8.
Result<std::string> manifest_text(const Manifest& manifest);
// Errors: corrupt, with what is wrong.
Result<Manifest> parse_manifest(std::string_view text);

// What one rank says about the file it wrote; crosses to the coordinator as bytes.
struct ShardReport {
  std::string uuid;  // of the save
  int64_t shard = 0;
  StoredFile file;
  std::vector<StoredTensor> tensors;  // their boxes point to file 0: this one
};
std::string encode_report(const ShardReport& report);
Result<ShardReport> decode_report(std::string_view bytes);  // errors: corrupt

// Joins what the ranks wrote, and `attachments` that hold no tensor, into `manifest`'s tensors and
// files (in sorted order).
// Errors: invalid_argument when a report belongs to another save, two describe one tensor
// differently, or the tensors are not those of `expected`.
Status merge_reports(Manifest& manifest, const std::vector<ShardReport>& reports,
                     const std::vector<StoredFile>& attachments,
                     const std::vector<TensorInfo>& expected);

}  // namespace muster
