// For tests and the benchmark: a State with memory of its own, filled from a seed, and one whole
// save of it with any number of shards.
#pragma once

#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/philox.h"
#include "ckpt/commit.h"
#include "ckpt/shard_writer.h"
#include "ckpt/state.h"

namespace muster {

struct TensorSpec {
  std::string name;
  Dtype dtype;
  std::vector<int64_t> shape;
  Role role;
};

class TestState {
 public:
  TestState(const std::vector<TensorSpec>& specs, uint64_t seed) {
    for (const TensorSpec& spec : specs) {
      const Box box = whole_box(spec.shape);
      memory_.emplace_back(static_cast<size_t>(elements_of(box) * dtype_bytes(spec.dtype)));
      state.tensors.push_back(
          {{spec.name, spec.dtype, spec.shape, spec.role, ""}, box, memory_.back().data()});
    }
    fill(seed);
  }
  // Other bytes and scalars, as after an update.
  void fill(uint64_t seed) {
    for (size_t t = 0; t < memory_.size(); ++t) {
      for (size_t i = 0; i < memory_[t].size(); i += 8) {
        const uint64_t bits = philox_u64(seed, t, i);
        std::memcpy(memory_[t].data() + i, &bits, std::min<size_t>(8, memory_[t].size() - i));
      }
    }
    const auto n = static_cast<int64_t>(seed);
    state.scalars = {n,
                     n,
                     1024.0,
                     seed * 7,
                     n,
                     std::string("cursor\0", 7) + std::to_string(n),
                     {{"tokens", "i64", seed * 100}}};
  }

  State state;

 private:
  std::vector<std::vector<std::byte>> memory_;
};

inline std::vector<TensorSpec> small_specs() {
  return {{"embed.weight", Dtype::f32, {50, 16}, Role::parameter},
          {"m.embed.weight", Dtype::f32, {50, 16}, Role::moment},
          {"norm.weight", Dtype::bf16, {33}, Role::parameter},
          {"scale", Dtype::f64, {}, Role::parameter},
          {"nothing", Dtype::f32, {0, 4}, Role::other},
          {"row", Dtype::u8, {1, 1, 4096}, Role::moment}};
}

inline RingOptions small_ring() {
  return {2, size_t{1} << 20, size_t{1} << 20, true};
}

inline Manifest manifest_of(const State& state, const std::string& uuid) {
  Manifest manifest;
  manifest.uuid = uuid;
  manifest.created = 1'700'000'000'000'000'000 + state.scalars.step;
  manifest.scalars = state.scalars;
  manifest.config = "steps = 40 # \"caf\u00e9\"\n";
  manifest.tokenizer = "0123456789abcdef0123456789abcdef";
  manifest.numerics = {"strict", 8, 8, {{"gemm", "tree"}}};
  return manifest;
}

// One save from begin to commit, all shards by one process. On failure the folder is abandoned.
inline Result<Committed> save_all(Files& files, ShardWriter& writer, const std::string& checkpoints,
                                  const State& state, const std::string& uuid, int shards) {
  auto folder = begin_checkpoint(files, checkpoints, state.scalars.step, uuid);
  if (!folder.ok()) return folder.error();
  const auto all = [&]() -> Result<Committed> {
    CommitRequest request{*folder, manifest_of(state, uuid), {}, tensor_infos(state), {}};
    request.attachments.push_back({"tokenizer.json", "{\"version\":\"1.0\"}"});
    for (int shard = 0; shard < shards; ++shard) {
      MUSTER_TRY(
          writer.begin({*folder, uuid, shard, shards, slices_of_shard(state, shard, shards)}));
      writer.before_update();
      MUSTER_TRY(const ShardReport report, writer.wait());
      MUSTER_TRY(ShardReport received, decode_report(encode_report(report)));
      request.reports.push_back(std::move(received));
    }
    return commit_checkpoint(files, request);
  };
  auto committed = all();
  if (!committed.ok()) (void)abandon_checkpoint(files, *folder);
  return committed;
}

}  // namespace muster
