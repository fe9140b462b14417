#include "train/model/model.h"

#include <algorithm>

#include "train/model/attention_block.h"
#include "train/model/head_block.h"
#include "train/model/init.h"
#include "train/model/rope.h"

namespace muster {

template <class T>
Result<std::unique_ptr<Model<T>>> Model<T>::make(const ModelConfig& config) {
  MUSTER_TRY(ModelSpec spec, make_model_spec(config, real_of<T>()));
  MUSTER_TRY(Arena arena,
             Arena::make(static_cast<size_t>(spec.buffer_elements()) * sizeof(T), /*prefault=*/true)
                 .context("parameters of the model"));
  return std::unique_ptr<Model>(new Model(std::move(spec), std::move(arena)));
}

template <class T>
Model<T>::Model(ModelSpec spec, Arena arena)
    : spec_(std::move(spec)),
      arena_(std::move(arena)),
      blocks_(make_blocks<T>(spec_)),
      rope_(rope_table<T>(spec_.config, spec_.config.context)) {
  for (const UnitSpec& unit : spec_.units) {
    units_.push_back(arena_.template take_array<T>(unit.elements));
    std::fill_n(units_.back(), unit.elements, T{0});
  }
}

template <class T>
const AttentionBlock<T>& Model<T>::attention(int layer) const {
  return static_cast<const AttentionBlock<T>&>(block(1 + 2 * layer));
}

template <class T>
const HeadBlock<T>& Model<T>::head() const {
  return static_cast<const HeadBlock<T>&>(block(block_count() - 1));
}

template <class T>
void Model<T>::initialize(uint64_t seed, ThreadTeam& team) {
  for (size_t u = 0; u < units_.size(); ++u)
    init_unit(spec_, static_cast<int>(u), seed, team, units_[u]);
}

template class Model<float>;
template class Model<double>;

}  // namespace muster
