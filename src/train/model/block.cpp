#include "train/model/block.h"

#include "train/model/attention_block.h"
#include "train/model/embedding_block.h"
#include "train/model/head_block.h"
#include "train/model/mlp_block.h"

namespace muster {
namespace {

template <class T>
std::unique_ptr<Block<T>> make_block(const BlockSpec& spec, const ModelSpec& model) {
  switch (spec.kind) {
    case BlockKind::embedding:
      return std::make_unique<EmbeddingBlock<T>>(spec, model);
    case BlockKind::attention:
      return std::make_unique<AttentionBlock<T>>(spec, model);
    case BlockKind::mlp:
      return std::make_unique<MlpBlock<T>>(spec, model);
    case BlockKind::head:
      return std::make_unique<HeadBlock<T>>(spec, model);
  }
  return nullptr;
}

}  // namespace

template <class T>
std::vector<std::unique_ptr<Block<T>>> make_blocks(const ModelSpec& model) {
  MUSTER_CHECK(real_bytes(model.real) == static_cast<int64_t>(sizeof(T)), real_bytes(model.real),
               sizeof(T));
  std::vector<std::unique_ptr<Block<T>>> blocks;
  for (const BlockSpec& spec : model.blocks) blocks.push_back(make_block<T>(spec, model));
  return blocks;
}

template std::vector<std::unique_ptr<Block<float>>> make_blocks(const ModelSpec& model);
template std::vector<std::unique_ptr<Block<double>>> make_blocks(const ModelSpec& model);

}  // namespace muster
