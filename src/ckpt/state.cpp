#include "ckpt/state.h"

#include <algorithm>

#include "base/check.h"

namespace muster {
namespace {

// The dim to cut: all before it have extent 1, so that a range of it is consecutive in memory.
size_t cut_dim(const std::vector<int64_t>& shape) {
  size_t d = 0;
  while (d + 1 < shape.size() && shape[d] == 1) ++d;
  return d;
}

// floor(total * shard / shards) without overflow.
int64_t boundary(int64_t total, int shard, int shards) {
  return static_cast<int64_t>(static_cast<__int128>(total) * shard / shards);
}

}  // namespace

std::vector<TensorInfo> tensor_infos(const State& state) {
  std::vector<TensorInfo> infos;
  for (const StateTensor& tensor : state.tensors) infos.push_back(tensor.info);
  return infos;
}

std::vector<StateSlice> slices_of_shard(const State& state, int shard, int shards) {
  MUSTER_CHECK(shards > 0 && shard >= 0 && shard < shards, shard, shards);
  std::vector<const StateTensor*> sorted;
  int64_t total = 0;
  for (const StateTensor& tensor : state.tensors) {
    MUSTER_CHECK(tensor.held == whole_box(tensor.info.shape), tensor.info.name);
    sorted.push_back(&tensor);
    total += elements_of(tensor.held) * dtype_bytes(tensor.info.dtype);
  }
  std::sort(sorted.begin(), sorted.end(),
            [](const auto* a, const auto* b) { return a->info.name < b->info.name; });
  const int64_t from = boundary(total, shard, shards), to = boundary(total, shard + 1, shards);

  std::vector<StateSlice> slices;
  int64_t start = 0;  // of the tensor in the sequence of all bytes
  for (const StateTensor* tensor : sorted) {
    const std::vector<int64_t>& shape = tensor->info.shape;
    const int64_t bytes = elements_of(tensor->held) * dtype_bytes(tensor->info.dtype);
    if (bytes == 0 || shape.empty()) {
      // Not divisible: the writer in whose range it starts takes it; the end belongs to the last.
      const bool mine = (start >= from && start < to) || (shard + 1 == shards && start >= to);
      if (mine) slices.push_back({tensor->info, tensor->held, tensor->data});
    } else {
      const size_t d = cut_dim(shape);
      const int64_t row = bytes / shape[d];
      // A row belongs to the writer in whose range it starts.
      const auto first_row_at = [&](int64_t position) {
        if (position <= start) return int64_t{0};
        return std::min<int64_t>((position - start + row - 1) / row, shape[d]);
      };
      const int64_t begin = first_row_at(from), end = first_row_at(to);
      if (begin < end) {
        Box box = tensor->held;
        box.offset[d] = begin;
        box.extent[d] = end - begin;
        slices.push_back({tensor->info, box, tensor->data + begin * row});
      }
    }
    start += bytes;
  }
  return slices;
}

}  // namespace muster
