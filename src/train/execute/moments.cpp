#include "train/execute/moments.h"

#include <algorithm>

namespace muster {

template <class T>
Result<Moments<T>> Moments<T>::make(const ModelSpec& spec) {
  constexpr size_t kSlack = 64;  // per buffer, for its alignment
  const size_t bytes =
      2 * (static_cast<size_t>(spec.buffer_elements()) * sizeof(T) + kSlack * spec.units.size());
  MUSTER_TRY(Arena arena, Arena::make(bytes, true).context("moments of the optimizer"));
  Moments moments(std::move(arena));
  for (const UnitSpec& unit : spec.units) {
    for (auto* list : {&moments.first_, &moments.second_}) {
      T* buffer = moments.arena_.template take_array<T>(unit.elements);
      std::fill_n(buffer, unit.elements, T{0});
      list->push_back(buffer);
    }
  }
  return moments;
}

template class Moments<float>;
template class Moments<double>;

}  // namespace muster
