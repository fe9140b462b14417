// ShardPlan: the byte layout of the file that one rank writes, known before the first byte is
// copied: a strictly valid safetensors file (safetensors.h) whose metadata carries the save's uuid
// and the shard's index. Pure.
#pragma once

#include <string>
#include <vector>

#include "ckpt/manifest.h"

namespace muster {

struct ShardPlan {
  struct Source {
    int64_t begin = 0, end = 0;       // bytes of the file
    const std::byte* data = nullptr;  // in the trainer's memory; null: the header
    size_t tensor = 0, box = 0;       // into report.tensors, .boxes
  };
  std::string start;            // header, a multiple of 4096 bytes
  std::vector<Source> sources;  // of all bytes behind it, in order, without gaps
  int64_t size = 0;
  ShardReport report;  // complete but for checksums
};

// Errors: invalid_argument as check_inside, or the header would be too long.
Result<ShardPlan> plan_shard(const std::vector<StateSlice>& slices, const std::string& uuid,
                             int shard, int shards);

// What the file's header says again about the save it belongs to.
inline constexpr const char* kUuidKey = "muster_checkpoint";
inline constexpr const char* kShardKey = "muster_shard";
// The key of a box inside a shard: the tensor's name, followed by the box unless it is whole.
std::string shard_key(const TensorInfo& info, const Box& box);
std::string shard_file_name(int shard, int shards);  // "shard-00001-of-00004.safetensors"

}  // namespace muster
