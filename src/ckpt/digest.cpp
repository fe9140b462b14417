#include "ckpt/digest.h"

#include <algorithm>
#include <bit>

#include "base/check.h"

namespace muster {
namespace {

constexpr int64_t kBlockBytes = int64_t{32} << 20;

void add_text(Xxh3& hash, std::string_view text) {
  hash.update_u64(text.size());
  hash.update(text);
}

void add_head(Xxh3& hash, const TensorInfo& info) {
  add_text(hash, info.name);
  add_text(hash, dtype_name(info.dtype));
  hash.update_u64(info.shape.size());
  for (const int64_t extent : info.shape) hash.update_u64(static_cast<uint64_t>(extent));
}

void add_scalars(Xxh3& hash, const ScalarState& scalars) {
  hash.update_u64(static_cast<uint64_t>(scalars.step));
  hash.update_u64(static_cast<uint64_t>(scalars.schedule_step));
  hash.update_u64(std::bit_cast<uint64_t>(scalars.loss_scale));
  hash.update_u64(scalars.rng_seed);
  hash.update_u64(static_cast<uint64_t>(scalars.rng_step));
  add_text(hash, scalars.loader_cursor);
}

bool counts(Role role) {
  return role == Role::parameter || role == Role::moment;
}

// Calls visit(box) for consecutive boxes of at most about kBlockBytes, in row-major order.
template <class Visit>
Status for_each_block(const Box& box, int64_t element, size_t dim, Visit& visit) {
  if (dim == box.extent.size()) return visit(box);
  int64_t row = element;
  for (size_t d = dim + 1; d < box.extent.size(); ++d) row *= box.extent[d];
  const int64_t rows = row > kBlockBytes ? 1 : kBlockBytes / std::max<int64_t>(row, 1);
  for (int64_t at = 0; at < box.extent[dim]; at += rows) {
    Box block = box;
    block.offset[dim] = box.offset[dim] + at;
    block.extent[dim] = std::min(rows, box.extent[dim] - at);
    if (row > kBlockBytes) {
      MUSTER_TRY(for_each_block(block, element, dim + 1, visit));
    } else {
      MUSTER_TRY(visit(block));
    }
  }
  return {};
}

}  // namespace

Hash128 digest_of(const State& state) {
  std::vector<const StateTensor*> sorted;
  for (const StateTensor& tensor : state.tensors)
    if (counts(tensor.info.role)) sorted.push_back(&tensor);
  std::sort(sorted.begin(), sorted.end(),
            [](const auto* a, const auto* b) { return a->info.name < b->info.name; });
  Xxh3 hash;
  for (const StateTensor* tensor : sorted) {
    MUSTER_CHECK(tensor->held == whole_box(tensor->info.shape), tensor->info.name);
    add_head(hash, tensor->info);
    const int64_t bytes = elements_of(tensor->held) * dtype_bytes(tensor->info.dtype);
    hash.update({tensor->data, static_cast<size_t>(bytes)});
  }
  add_scalars(hash, state.scalars);
  return hash.digest();
}

Result<Hash128> digest_of(CheckpointReader& reader) {
  Xxh3 hash;
  std::vector<std::byte> buffer;
  for (const StoredTensor& tensor : reader.manifest().tensors) {  // sorted by name
    if (!counts(tensor.info.role)) continue;
    add_head(hash, tensor.info);
    const int64_t element = dtype_bytes(tensor.info.dtype);
    const auto add_block = [&](const Box& block) -> Status {
      buffer.resize(static_cast<size_t>(elements_of(block) * element));
      MUSTER_TRY(reader.load(tensor, block, buffer));
      hash.update(buffer);
      return {};
    };
    MUSTER_TRY(for_each_block(whole_box(tensor.info.shape), element, 0, add_block));
  }
  add_scalars(hash, reader.manifest().scalars);
  return hash.digest();
}

}  // namespace muster
