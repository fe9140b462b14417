// State: what a checkpoint must bring back, as it lies in one rank's memory. A plain description:
// the tensors' bytes belong to the trainer, which keeps them constant between updates.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "ckpt/box.h"
#include "ckpt/dtype.h"

namespace muster {

// Parameters and moments make up the digest (digest.h).
enum class Role : uint8_t { parameter, moment, other };

struct TensorInfo {
  std::string name;  // unique among all tensors of the state
  Dtype dtype = Dtype::f32;
  std::vector<int64_t> shape;  // of the whole tensor, over all ranks
  Role role = Role::other;
  std::string layout;  // tag of how the numbers are arranged ("rope_halves"); may be empty
  bool operator==(const TensorInfo&) const = default;
};

struct StateTensor {
  TensorInfo info;
  Box held;  // the part in this rank's memory; whole_box(shape) with data parallelism
  std::byte* data = nullptr;  // of the held box, row-major without gaps
};

struct Scalar {
  std::string name;
  std::string type;   // "i64", "u64", "f32", "f64": how to read the bits
  uint64_t bits = 0;  // exact
  bool operator==(const Scalar&) const = default;
};

struct ScalarState {
  int64_t step = 0;           // updates done
  int64_t schedule_step = 0;  // position in the learning-rate schedule
  double loss_scale = 1;
  uint64_t rng_seed = 0;
  int64_t rng_step = 0;
  std::string loader_cursor;   // opaque bytes
  std::vector<Scalar> others;  // not in the digest
  bool operator==(const ScalarState&) const = default;
};

struct State {
  std::vector<StateTensor> tensors;
  ScalarState scalars;
};

std::vector<TensorInfo> tensor_infos(const State& state);

// A piece of a tensor that one rank writes: consecutive bytes of its memory.
struct StateSlice {
  TensorInfo info;
  Box box;
  const std::byte* data = nullptr;
};

// Data parallelism, where every rank holds everything: divides the bytes of the state (tensors in
// the order of their names) evenly over `shards` writers, cutting tensors along their first dim
// that is longer than 1. The same on every rank. Bug if a tensor is not held whole.
std::vector<StateSlice> slices_of_shard(const State& state, int shard, int shards);

}  // namespace muster
