// Model: the parameters of one decoder in flat unit buffers (huge pages, one arena), its blocks and
// its rotary table. Templated on the number type; float trains, double is for scores and oracles.
//
// Invariants: buffers never move; gaps between parameters are zero after make() and initialize().
// Threads: blocks may be run from several threads with an Exec each while nobody writes parameters.
// Errors: no_space when the parameters do not fit into memory.
#pragma once

#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "sys/arena.h"
#include "sys/thread_team.h"
#include "train/model/block.h"

namespace muster {

template <class T>
class AttentionBlock;
template <class T>
class HeadBlock;

template <class T>
constexpr Real real_of() {
  return sizeof(T) == 4 ? Real::f32 : Real::f64;
}

template <class T>
class Model {
 public:
  // All parameters zero. Errors: those of validate(), no_space.
  static Result<std::unique_ptr<Model>> make(const ModelConfig& config);

  const ModelConfig& config() const { return spec_.config; }
  const ModelSpec& spec() const { return spec_; }

  T* unit(int index) { return units_[static_cast<size_t>(index)]; }
  const T* unit(int index) const { return units_[static_cast<size_t>(index)]; }
  std::span<T> view(const Param& param) {
    return {unit(param.unit) + param.offset, static_cast<size_t>(param.count())};
  }
  std::span<const T> view(const Param& param) const {
    return {unit(param.unit) + param.offset, static_cast<size_t>(param.count())};
  }

  const Block<T>& block(int index) const { return *blocks_[static_cast<size_t>(index)]; }
  int block_count() const { return static_cast<int>(blocks_.size()); }
  const AttentionBlock<T>& attention(int layer) const;
  const HeadBlock<T>& head() const;

  // [context, head_dim]; null for gpt2.
  const T* rope() const { return rope_.empty() ? nullptr : rope_.data(); }

  // The initial parameters of `seed` (init.h).
  void initialize(uint64_t seed, ThreadTeam& team);

 private:
  Model(ModelSpec spec, Arena arena);

  ModelSpec spec_;
  Arena arena_;
  std::vector<T*> units_;
  std::vector<std::unique_ptr<Block<T>>> blocks_;
  std::vector<T> rope_;
};

}  // namespace muster
