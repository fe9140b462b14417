#include "train/step/program.h"

#include <fmt/format.h>

#include <unordered_map>

namespace muster {

std::string_view op_kind_name(OpKind kind) {
  switch (kind) {
    case OpKind::count:
      return "count";
    case OpKind::forward:
      return "forward";
    case OpKind::recompute:
      return "recompute";
    case OpKind::backward_input:
      return "backward_input";
    case OpKind::backward_weight:
      return "backward_weight";
    case OpKind::add:
      return "add";
    case OpKind::reduce:
      return "reduce";
    case OpKind::losses:
      return "losses";
    case OpKind::clip:
      return "clip";
    case OpKind::update:
      return "update";
    case OpKind::release:
      return "release";
  }
  return "?";
}

std::string_view op_stream_name(OpStream stream) {
  return stream == OpStream::comp ? "comp" : "comm";
}

std::string_view buffer_kind_name(BufferKind kind) {
  switch (kind) {
    case BufferKind::activation:
      return "activation";
    case BufferKind::costly:
      return "costly";
    case BufferKind::cheap:
      return "cheap";
    case BufferKind::token_loss:
      return "token_loss";
    case BufferKind::slope:
      return "slope";
    case BufferKind::leaf:
      return "leaf";
  }
  return "?";
}

std::vector<int64_t> StepLayout::my_micro_batches() const {
  const LeafRange mine = my_lanes();
  std::vector<int64_t> list;
  for (int64_t round = 0; round < rounds(); ++round) {
    for (int64_t lane = mine.begin; lane < mine.end; ++lane) list.push_back(round * lanes + lane);
  }
  return list;
}

Status check_layout(const StepLayout& layout) {
  const auto wrong = [](std::string text) {
    return Error(Code::invalid_argument, std::move(text));
  };
  if (layout.world < 1) return wrong(fmt::format("{} workers: at least 1 is needed", layout.world));
  if (layout.micro_batches < 1)
    return wrong(
        fmt::format("{} micro-batches a step: at least 1 is needed", layout.micro_batches));
  if (layout.lanes < 1 || layout.micro_batches % layout.lanes != 0) {
    return wrong(fmt::format("{} virtual shards do not divide {} micro-batches a step",
                             layout.lanes, layout.micro_batches));
  }
  if (layout.world > layout.lanes) {
    return wrong(
        fmt::format("{} workers for {} virtual shards: use at most {} workers, or more "
                    "micro-batches a step",
                    layout.world, layout.lanes, layout.lanes));
  }
  if (layout.rank.value < 0 || layout.rank.value >= layout.world) {
    return wrong(fmt::format("rank {} of {} workers: ranks count from 0 to {}", layout.rank.value,
                             layout.world, layout.world - 1));
  }
  if (layout.work.tokens < 1)
    return wrong(fmt::format("{} tokens a micro-batch: at least 1 is needed", layout.work.tokens));
  return {};
}

int StepProgram::add_buffer(StepBuffer buffer) {
  buffers.push_back(std::move(buffer));
  return static_cast<int>(buffers.size()) - 1;
}

int64_t StepProgram::flops() const {
  int64_t sum = 0;
  for (const StepOp& op : ops) sum += op.flops;
  return sum;
}
int64_t StepProgram::repeated_flops() const {
  int64_t sum = 0;
  for (const StepOp& op : ops) sum += op.repeated_flops;
  return sum;
}

void renumber(std::vector<StepOp>& ops) {
  std::unordered_map<int, int> position;
  for (size_t i = 0; i < ops.size(); ++i) {
    MUSTER_CHECK(position.emplace(ops[i].id, static_cast<int>(i)).second, ops[i].id);
  }
  for (size_t i = 0; i < ops.size(); ++i) {
    ops[i].id = static_cast<int>(i);
    for (int& id : ops[i].after) {
      const auto it = position.find(id);
      MUSTER_CHECK(it != position.end(), id);
      id = it->second;
    }
  }
}

}  // namespace muster
