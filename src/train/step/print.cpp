#include "train/step/print.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <nlohmann/json.hpp>

namespace muster {
namespace {

std::string_view real_name(Real real) {
  return real == Real::f32 ? "f32" : "f64";
}

// What the operation works on.
std::string subject(const StepProgram& program, const StepOp& op) {
  if (op.block >= 0) return program.model.blocks[static_cast<size_t>(op.block)].name;
  if (op.unit >= 0 && op.kind == OpKind::update)
    return program.model.units[static_cast<size_t>(op.unit)].name;
  if (op.bucket >= 0) return program.buckets[static_cast<size_t>(op.bucket)].name;
  return "-";
}

std::string buffer_list(const StepProgram& program, const std::vector<int>& buffers) {
  std::string text;
  for (const int b : buffers)
    text += (text.empty() ? "" : ", ") + program.buffers[static_cast<size_t>(b)].name;
  return text;
}

// The column that tells what an operation leaves.
std::string result(const StepProgram& program, const StepOp& op) {
  switch (op.kind) {
    case OpKind::count:
      return "valid tokens of the step";
    case OpKind::losses:
      return "losses of all micro-batches";
    case OpKind::clip:
      return "gradient norm, factor, step or skip";
    case OpKind::update:
      return "parameters, moments";
    case OpKind::add:
      return buffer_list(program, {op.reads[0]}) + " += " + buffer_list(program, {op.reads[1]});
    case OpKind::reduce:
      return fmt::format("{}: sum over ranks, round {}, {} part{}", buffer_list(program, op.writes),
                         op.round, op.reads.size(), op.reads.size() == 1 ? "" : "s");
    case OpKind::release:
      return buffer_list(program, op.reads);
    case OpKind::recompute:
      return buffer_list(program, op.writes) + (op.cheap_only ? " from costly ones" : "");
    default:
      return buffer_list(program, op.writes);
  }
}

int64_t released_bytes(const StepProgram& program, const StepOp& op) {
  int64_t bytes = 0;
  for (const int b : op.reads) bytes += program.buffers[static_cast<size_t>(b)].bytes;
  return bytes;
}

std::string count_text(int64_t n) {
  return n == 0 ? "-" : format_count(static_cast<double>(n));
}

std::string head_lines(const PlannedStep& step) {
  const StepProgram& program = step.program;
  const StepLayout& layout = program.layout;
  return fmt::format(
      "rank {} of {} | micro-batches {} (here {}) | V={} rounds={} | {} tokens each | {} | "
      "root = embedding, final norm, head{}\n"
      "frames of a micro-batch: {} kept, {} recomputed\n",
      layout.rank.value, layout.world, layout.micro_batches, layout.my_micro_batches().size(),
      layout.lanes, layout.rounds(), layout.work.tokens, real_name(program.model.real),
      program.model.tied() ? " (tied)" : "", format_bytes(Bytes{program.frame_bytes_kept}),
      format_bytes(Bytes{program.frame_bytes_dropped}));
}

}  // namespace

double flops_per_token(const StepProgram& program) {
  return static_cast<double>(program.model.training_flops(program.layout.work)) /
         static_cast<double>(program.layout.work.tokens);
}

std::string step_table(const PlannedStep& step, const StepPrediction& prediction) {
  const StepProgram& program = step.program;
  std::string text = head_lines(step);
  text += fmt::format("{:>4} {:<15} {:<24} {:>4} {:<4} {:<10} {:>10} {:>10} {:>9} {:>9}  {}\n",
                      "id", "kind", "unit", "g", "strm", "after", "start", "time", "flops", "bytes",
                      "result");
  for (size_t i = 0; i < program.ops.size(); ++i) {
    const StepOp& op = program.ops[i];
    const std::string g = op.micro_batch < 0 ? "-" : fmt::format("g{}", op.micro_batch);
    std::string after = op.after.empty() ? "-" : fmt::format("{}", fmt::join(op.after, ","));
    if (after.size() > 10) after = fmt::format("{} ops", op.after.size());
    const bool release = op.kind == OpKind::release;
    text += fmt::format("{:>4} {:<15} {:<24} {:>4} {:<4} {:<10} {:>10} {:>10} {:>9} {:>9}  {}\n",
                        op.id, op_kind_name(op.kind), subject(program, op), g,
                        op_stream_name(op.stream), after, format_duration(prediction.start[i]),
                        release ? "-" : format_duration(prediction.duration[i]),
                        count_text(op.flops + op.repeated_flops),
                        count_text(release ? released_bytes(program, op) : op.bytes),
                        result(program, op));
  }
  const MemoryPlan& memory = step.memory;
  const int64_t state = program.model.buffer_elements() * real_bytes(program.model.real);
  text += fmt::format(
      "\nstep: {} predicted = compute {} + exposed communication {} (of {})\n"
      "memory of a step: peak {} = activations and frames {} (least possible {}) + gradients {} "
      "(least possible {}) + scratch {}\n"
      "state: parameters {}, moments {}\n"
      "FLOPs: {} of this rank's step, {} repeated; {:.0f} a token exactly (6 N_mm + 12 x heads x "
      "head_dim x mean visible keys, all layers; N_mm {})\n"
      "parameters: {}\n",
      format_duration(prediction.total), format_duration(prediction.compute),
      format_duration(prediction.exposed_comm), format_duration(prediction.comm),
      format_bytes(Bytes{memory.total()}), format_bytes(Bytes{memory.local_bytes}),
      format_bytes(Bytes{memory.local_sweep}), format_bytes(Bytes{memory.shared_bytes}),
      format_bytes(Bytes{memory.shared_sweep}), format_bytes(Bytes{memory.workspace}),
      format_bytes(Bytes{state}), format_bytes(Bytes{2 * state}), program.flops(),
      program.repeated_flops(), flops_per_token(program), program.model.matmul_parameter_count(),
      program.model.parameter_count());
  return text;
}

std::string step_json(const PlannedStep& step, const StepPrediction& prediction) {
  using nlohmann::ordered_json;
  const StepProgram& program = step.program;
  const StepLayout& layout = program.layout;
  ordered_json json;
  json["layout"] = {{"rank", layout.rank.value},
                    {"workers", layout.world},
                    {"micro_batches", layout.micro_batches},
                    {"virtual_shards", layout.lanes},
                    {"rounds", layout.rounds()},
                    {"tokens_per_micro_batch", layout.work.tokens},
                    {"pairs_per_micro_batch", layout.work.pairs},
                    {"dtype", real_name(program.model.real)}};
  json["operations"] = ordered_json::array();
  for (size_t i = 0; i < program.ops.size(); ++i) {
    const StepOp& op = program.ops[i];
    ordered_json o = {{"id", op.id},
                      {"kind", op_kind_name(op.kind)},
                      {"subject", subject(program, op)},
                      {"stream", op_stream_name(op.stream)},
                      {"stage", op.stage},
                      {"after", op.after},
                      {"reads", op.reads},
                      {"writes", op.writes},
                      {"dtype", real_name(program.model.real)},
                      {"bytes", op.bytes},
                      {"flops", op.flops},
                      {"repeated_flops", op.repeated_flops},
                      {"workspace", op.workspace},
                      {"start_ns", prediction.start[i].count()},
                      {"duration_ns", prediction.duration[i].count()}};
    if (op.micro_batch >= 0) {
      o["micro_batch"] = op.micro_batch;
      o["round"] = op.round;
    }
    if (op.unit >= 0) o["unit"] = program.model.units[static_cast<size_t>(op.unit)].name;
    if (op.bucket >= 0) o["bucket"] = op.bucket;
    if (op.kind == OpKind::recompute) o["cheap_only"] = op.cheap_only;
    json["operations"].push_back(std::move(o));
  }
  json["buffers"] = ordered_json::array();
  for (size_t b = 0; b < program.buffers.size(); ++b) {
    const StepBuffer& buffer = program.buffers[b];
    json["buffers"].push_back({{"id", b},
                               {"name", buffer.name},
                               {"kind", buffer_kind_name(buffer.kind)},
                               {"arena", is_shared(buffer.kind) ? "shared" : "local"},
                               {"offset", step.memory.offset[b]},
                               {"bytes", buffer.bytes}});
  }
  json["buckets"] = ordered_json::array();
  for (const GradientBucket& bucket : program.buckets)
    json["buckets"].push_back({{"name", bucket.name}, {"elements", bucket.elements}});
  const MemoryPlan& memory = step.memory;
  const int64_t state = program.model.buffer_elements() * real_bytes(program.model.real);
  json["memory"] = {{"peak_bytes", memory.total()},
                    {"local_bytes", memory.local_bytes},
                    {"local_least_bytes", memory.local_sweep},
                    {"gradient_bytes", memory.shared_bytes},
                    {"gradient_least_bytes", memory.shared_sweep},
                    {"workspace_bytes", memory.workspace},
                    {"parameter_bytes", state},
                    {"moment_bytes", 2 * state},
                    {"frame_bytes_kept", program.frame_bytes_kept},
                    {"frame_bytes_recomputed", program.frame_bytes_dropped}};
  json["predicted"] = {{"step_ns", prediction.total.count()},
                       {"compute_ns", prediction.compute.count()},
                       {"comm_ns", prediction.comm.count()},
                       {"exposed_comm_ns", prediction.exposed_comm.count()}};
  json["flops"] = {{"rank_step", program.flops()},
                   {"rank_step_repeated", program.repeated_flops()},
                   {"per_token", flops_per_token(program)},
                   {"label", "exact"}};
  json["parameters"] = {{"total", program.model.parameter_count()},
                        {"matmul", program.model.matmul_parameter_count()}};
  return json.dump();
}

}  // namespace muster
