#include "ckpt/shard_plan.h"

#include <cstdio>
#include <map>

#include "ckpt/safetensors.h"

namespace muster {

std::string shard_key(const TensorInfo& info, const Box& box) {
  return box == whole_box(info.shape) ? info.name : info.name + describe(box);
}

std::string shard_file_name(int shard, int shards) {
  char name[64];
  std::snprintf(name, sizeof name, "shard-%05d-of-%05d.safetensors", shard, shards);
  return name;
}

Result<ShardPlan> plan_shard(const std::vector<StateSlice>& slices, const std::string& uuid,
                             int shard, int shards) {
  std::vector<SafetensorsTensor> boxes;
  std::map<std::string, const StateSlice*> by_key;
  for (const StateSlice& slice : slices) {
    MUSTER_TRY(check_inside(slice.box, slice.info.shape, slice.info.name));
    const std::string key = shard_key(slice.info, slice.box);
    by_key[key] = &slice;
    boxes.push_back({key, slice.info.dtype, slice.box.extent, 0, 0});
  }
  MUSTER_TRY(
      SafetensorsLayout layout,
      lay_out_safetensors(
          std::move(boxes),
          {{kUuidKey, uuid}, {kShardKey, std::to_string(shard) + "/" + std::to_string(shards)}}));
  ShardPlan plan;
  plan.start = std::move(layout.start);
  plan.size = static_cast<int64_t>(layout.header.file_size);
  plan.report.uuid = uuid;
  plan.report.shard = shard;
  plan.report.file.name = shard_file_name(shard, shards);
  plan.report.file.size = plan.size;
  std::map<std::string, size_t> tensor_index;
  for (const SafetensorsTensor& stored : layout.header.tensors) {
    const StateSlice& slice = *by_key.at(stored.name);
    const auto [entry, fresh] =
        tensor_index.try_emplace(slice.info.name, plan.report.tensors.size());
    if (fresh) plan.report.tensors.push_back({slice.info, {}});
    StoredTensor& tensor = plan.report.tensors[entry->second];
    const auto begin = static_cast<int64_t>(stored.begin), end = static_cast<int64_t>(stored.end);
    plan.sources.push_back({begin, end, slice.data, entry->second, tensor.boxes.size()});
    tensor.boxes.push_back({slice.box, 0, begin, end, Hash128{}});
  }
  return plan;
}

}  // namespace muster
