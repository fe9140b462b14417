// Leaf: what a nanosecond of a rank was spent on. The order below is the order of claims: where
// several apply to one instant, the first wins; where none does, it is `other`.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>

namespace muster {

enum class Leaf : uint8_t {
  queue,  // asked for, no machine yet; nobody's time on one machine, so always 0 here
  idle,
  provision,
  hang,   // last progress to verdict, for deaths too
  evict,  // verdict to the new attempt placed
  restore,
  init_device,
  init_rendezvous,
  init_compile,
  init_first_step_extra,  // what the first step of an attempt took beyond the median step
  rework,                 // steps computed and lost, computed again later
  eval,
  ckpt_block,
  step_compute,
  step_exposed_comm,
  step_straggler_wait,
  step_exposed_ckpt,
  step_exposed_data,
  step_host_gap,
  other,
};
inline constexpr size_t kLeafCount = static_cast<size_t>(Leaf::other) + 1;

using LeafTimes = std::array<int64_t, kLeafCount>;  // nanoseconds by Leaf

// "step.exposed_comm"
std::string_view leaf_name(Leaf leaf);
std::optional<Leaf> leaf_from_name(std::string_view name);
// One sentence for people.
std::string_view leaf_meaning(Leaf leaf);
// In the order in which people read them: the life of a job in order of time.
const std::array<Leaf, kLeafCount>& leaves_in_reading_order();

constexpr bool is_step_leaf(Leaf leaf) {
  return leaf >= Leaf::step_compute && leaf <= Leaf::step_host_gap;
}
constexpr bool is_init_leaf(Leaf leaf) {
  return leaf >= Leaf::init_device && leaf <= Leaf::init_first_step_extra;
}

}  // namespace muster
