// Distinct integer types for things that must not be mixed up.
#pragma once

#include <compare>
#include <cstdint>
#include <functional>

namespace muster {

struct Rank {
  int32_t value = 0;
  auto operator<=>(const Rank&) const = default;
};
// Numbered life of a job: 0 for the first start, one more for each restart.
struct Attempt {
  int32_t value = 0;
  auto operator<=>(const Attempt&) const = default;
};

}  // namespace muster

template <>
struct std::hash<muster::Rank> {
  size_t operator()(muster::Rank r) const noexcept { return std::hash<int32_t>{}(r.value); }
};
