#include "insight/ledger/leaf.h"

namespace muster {
namespace {

struct Row {
  Leaf leaf;
  std::string_view name, meaning;
};

// In reading order.
constexpr std::array<Row, kLeafCount> kRows = {{
    {Leaf::queue, "queue", "waiting for machines"},
    {Leaf::provision, "provision", "launch to the first processes placed"},
    {Leaf::init_device, "init.device", "process start and device set-up"},
    {Leaf::init_rendezvous, "init.rendezvous", "ranks finding each other"},
    {Leaf::init_compile, "init.compile", "building, tuning and warming up the step"},
    {Leaf::init_first_step_extra, "init.first_step_extra",
     "first step of an attempt beyond the median step"},
    {Leaf::restore, "restore", "reading a checkpoint into place"},
    {Leaf::step_compute, "step.compute", "computing"},
    {Leaf::step_exposed_comm, "step.exposed_comm", "communication that nothing hides"},
    {Leaf::step_straggler_wait, "step.straggler_wait", "waiting for the last rank of a collective"},
    {Leaf::step_exposed_data, "step.exposed_data", "waiting for the next batch"},
    {Leaf::step_exposed_ckpt, "step.exposed_ckpt", "waiting for a snapshot within a step"},
    {Leaf::step_host_gap, "step.host_gap", "in a step, none of the above"},
    {Leaf::eval, "eval", "evaluation"},
    {Leaf::ckpt_block, "ckpt_block", "stopped until a checkpoint is durable"},
    {Leaf::hang, "hang", "last progress to the verdict: detection"},
    {Leaf::evict, "evict", "verdict to the next attempt placed: restart"},
    {Leaf::rework, "rework", "steps lost and computed again"},
    {Leaf::idle, "idle", "rank has nothing to do"},
    {Leaf::other, "other", "not accounted for"},
}};

constexpr std::array<Leaf, kLeafCount> kReadingOrder = [] {
  std::array<Leaf, kLeafCount> order{};
  for (size_t i = 0; i < kLeafCount; ++i) order[i] = kRows[i].leaf;
  return order;
}();

const Row& row_of(Leaf leaf) {
  for (const Row& row : kRows)
    if (row.leaf == leaf) return row;
  return kRows.back();
}

}  // namespace

std::string_view leaf_name(Leaf leaf) {
  return row_of(leaf).name;
}
std::string_view leaf_meaning(Leaf leaf) {
  return row_of(leaf).meaning;
}

std::optional<Leaf> leaf_from_name(std::string_view name) {
  for (const Row& row : kRows)
    if (row.name == name) return row.leaf;
  return std::nullopt;
}

const std::array<Leaf, kLeafCount>& leaves_in_reading_order() {
  return kReadingOrder;
}

}  // namespace muster
