// Moments: AdamW's first and second moment of every unit, in flat buffers like the parameters'.
// Zero when made, and their gaps stay zero. Buffers never move; one thread writes.
#pragma once

#include <span>
#include <vector>

#include "sys/arena.h"
#include "train/spec/block_spec.h"

namespace muster {

template <class T>
class Moments {
 public:
  // Errors: no_space.
  static Result<Moments> make(const ModelSpec& spec);

  // The unit's buffers.
  T* first(int unit) { return first_[static_cast<size_t>(unit)]; }
  T* second(int unit) { return second_[static_cast<size_t>(unit)]; }
  const T* first(int unit) const { return first_[static_cast<size_t>(unit)]; }
  const T* second(int unit) const { return second_[static_cast<size_t>(unit)]; }
  // Of one parameter.
  std::span<T> first(const Param& param) { return view(first_, param); }
  std::span<T> second(const Param& param) { return view(second_, param); }

 private:
  explicit Moments(Arena arena) : arena_(std::move(arena)) {}
  static std::span<T> view(const std::vector<T*>& units, const Param& param) {
    return {units[static_cast<size_t>(param.unit)] + param.offset,
            static_cast<size_t>(param.count())};
  }
  Arena arena_;
  std::vector<T*> first_, second_;
};

}  // namespace muster
