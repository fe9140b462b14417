#include "train/step/gradients.h"

#include <algorithm>
#include <map>

namespace muster {
namespace {

// For each operation, the buckets whose leaf of the operation's micro-batch it writes last.
std::vector<std::vector<int>> completed_buckets(const StepProgram& program) {
  std::map<std::pair<int, int64_t>, size_t> last;  // (bucket, g) -> position
  for (size_t i = 0; i < program.ops.size(); ++i) {
    const StepOp& op = program.ops[i];
    if (op.bucket >= 0 && (op.kind == OpKind::forward || op.kind == OpKind::backward_weight))
      last[{op.bucket, op.micro_batch}] = i;
  }
  std::vector<std::vector<int>> completed(program.ops.size());
  for (const auto& [key, position] : last) completed[position].push_back(key.first);
  return completed;
}

// Every operation of one bucket and round that touches whole leaves.
StepOp bucket_op(const StepProgram& program, OpKind kind, int bucket, int64_t g) {
  StepOp op;
  op.kind = kind;
  op.bucket = bucket;
  const GradientBucket& group = program.buckets[static_cast<size_t>(bucket)];
  if (group.units.size() == 1) op.unit = group.units[0];
  op.micro_batch = g;
  op.round = g / program.layout.lanes;
  return op;
}

int64_t bucket_bytes(const StepProgram& program, int bucket) {
  return program.buckets[static_cast<size_t>(bucket)].elements * real_bytes(program.model.real);
}

int first_free_id(const StepProgram& program) {
  int id = 0;
  for (const StepOp& op : program.ops) id = std::max(id, op.id + 1);
  return id;
}

// left += right.
StepOp addition(const StepProgram& program, int id, int bucket, int64_t g, int left, int right) {
  StepOp op = bucket_op(program, OpKind::add, bucket, g);
  op.id = id;
  op.reads = {left, right};
  op.writes = {left};
  op.bytes = 3 * bucket_bytes(program, bucket);
  return op;
}

int leaf_of(const StepOp& writer, const StepProgram& program) {
  for (const int b : writer.writes) {
    if (program.buffers[static_cast<size_t>(b)].kind == BufferKind::leaf) return b;
  }
  MUSTER_CHECK(false, writer.id);
  return -1;
}

}  // namespace

StepProgram accumulate_gradients(StepProgram program) {
  const auto completed = completed_buckets(program);
  const int64_t lanes = program.layout.lanes;
  const std::vector<TreeNode> nodes = subtrees_of(program.layout.my_lanes(), lanes);
  const auto node_of = [&](int64_t lane) {
    for (const TreeNode& node : nodes) {
      const LeafRange range = leaves_of(node, lanes);
      if (lane >= range.begin && lane < range.end) return node;
    }
    MUSTER_CHECK(false, lane);
    return TreeNode{};
  };

  int id = first_free_id(program);
  std::vector<std::vector<int>> stack(
      program.buckets.size());  // sums that wait for their right half
  std::vector<StepOp> ops;
  for (size_t i = 0; i < program.ops.size(); ++i) {
    ops.push_back(program.ops[i]);
    for (const int bucket : completed[i]) {
      const StepOp& writer = program.ops[i];
      auto& sums = stack[static_cast<size_t>(bucket)];
      sums.push_back(leaf_of(writer, program));
      const int64_t lane = writer.micro_batch % lanes;
      for (int folds = folds_after(node_of(lane), lane, lanes); folds > 0; --folds) {
        MUSTER_CHECK(sums.size() >= 2, bucket, lane);
        const int right = sums.back();
        sums.pop_back();
        ops.push_back(addition(program, id++, bucket, writer.micro_batch, sums.back(), right));
      }
      if (lane + 1 == program.layout.my_lanes().end) {
        MUSTER_CHECK(sums.size() == nodes.size(), sums.size(), nodes.size());
        sums.clear();  // the next round starts anew
      }
    }
  }
  program.ops = std::move(ops);
  renumber(program.ops);
  return program;
}

StepProgram reduce_gradients(StepProgram program) {
  const int64_t lanes = program.layout.lanes;
  const int64_t last_lane = program.layout.my_lanes().end - 1;

  // The operation after which a (bucket, round) is complete on this rank, and its subtree sums: the
  // buffers that no addition took as its right half.
  struct Part {
    size_t position = 0;
    std::vector<int> sums;
  };
  std::map<std::pair<int, int64_t>, Part> parts;
  for (size_t i = 0; i < program.ops.size(); ++i) {
    const StepOp& op = program.ops[i];
    if (op.bucket < 0) continue;
    Part& part = parts[{op.bucket, op.round}];
    if (op.kind == OpKind::add) {
      std::erase(part.sums, op.reads[1]);
    } else {
      const int leaf = leaf_of(op, program);
      if (std::find(part.sums.begin(), part.sums.end(), leaf) == part.sums.end())
        part.sums.push_back(leaf);
    }
    if (op.micro_batch % lanes == last_lane) part.position = i;
  }
  std::vector<std::vector<std::pair<int, int64_t>>> complete(program.ops.size());
  for (const auto& [key, part] : parts) complete[part.position].push_back(key);

  int id = first_free_id(program);
  // What holds the sum of the rounds so far, and the reduces that must be done first.
  struct Total {
    int buffer = -1;
    std::vector<int> pending;
    int waiting = -1;  // the newest round's sum, not added yet
    int64_t g = 0;
  };
  std::vector<Total> totals(program.buckets.size());
  std::vector<StepOp> ops;
  const auto add_waiting = [&](int bucket) {
    Total& total = totals[static_cast<size_t>(bucket)];
    if (total.waiting < 0) return;
    StepOp op = addition(program, id++, bucket, total.g, total.buffer, total.waiting);
    op.after = total.pending;
    total.pending.clear();
    total.waiting = -1;
    ops.push_back(std::move(op));
  };
  for (size_t i = 0; i < program.ops.size(); ++i) {
    ops.push_back(program.ops[i]);
    for (const auto& key : complete[i]) {
      const auto& [bucket, round] = key;
      const Part& part = parts[key];
      Total& total = totals[static_cast<size_t>(bucket)];
      add_waiting(bucket);
      if (program.layout.world > 1) {
        StepOp op = bucket_op(program, OpKind::reduce, bucket, round * lanes + last_lane);
        op.id = id++;
        op.stream = OpStream::comm;
        op.after = {ops.back().id};
        op.reads = part.sums;
        op.writes = {part.sums[0]};
        op.bytes = bucket_bytes(program, bucket);
        total.pending.push_back(op.id);
        ops.push_back(std::move(op));
      }
      if (total.buffer < 0) {
        total.buffer = part.sums[0];
      } else {
        total.waiting = part.sums[0];
      }
      total.g = round * lanes + last_lane;
    }
  }
  for (int bucket = static_cast<int>(program.buckets.size()) - 1; bucket >= 0; --bucket)
    add_waiting(bucket);
  program.ops = std::move(ops);
  renumber(program.ops);
  return program;
}

StepProgram finish_step(StepProgram program) {
  const int64_t real = real_bytes(program.model.real);
  int id = first_free_id(program);

  StepOp losses;
  losses.id = id++;
  losses.kind = OpKind::losses;
  losses.stream = OpStream::comm;
  losses.bytes = 8 * program.layout.micro_batches;
  size_t last_head = 0;
  for (size_t i = 0; i < program.ops.size(); ++i) {
    const StepOp& op = program.ops[i];
    if (op.kind == OpKind::forward &&
        program.model.blocks[static_cast<size_t>(op.block)].kind == BlockKind::head)
      last_head = i;
  }
  losses.after = {program.ops[last_head].id};

  StepOp clip;
  clip.id = id++;
  clip.kind = OpKind::clip;
  clip.after = {losses.id};
  // The total of a bucket is the left side of its last addition or reduction, else its only leaf.
  std::vector<int> totals(program.buckets.size(), -1);
  for (const StepOp& op : program.ops) {
    if (op.kind == OpKind::reduce) clip.after.push_back(op.id);
    if (op.bucket < 0) continue;
    int& total = totals[static_cast<size_t>(op.bucket)];
    const int leaf = leaf_of(op, program);
    if (total < 0) total = leaf;  // rounds and lanes rise, so the first leaf ends as the total
  }
  for (size_t b = 0; b < totals.size(); ++b) {
    clip.reads.push_back(totals[b]);
    clip.bytes += program.buckets[b].elements * real;
  }
  program.ops.insert(program.ops.begin() + static_cast<ptrdiff_t>(last_head) + 1,
                     std::move(losses));
  program.ops.push_back(std::move(clip));

  for (size_t u = 0; u < program.model.units.size(); ++u) {
    StepOp update;
    update.id = id++;
    update.kind = OpKind::update;
    update.unit = static_cast<int>(u);
    update.bucket = program.bucket_of_unit[u];
    update.reads = {totals[static_cast<size_t>(update.bucket)]};
    // Gradient, parameter and two moments read, three of them written (fused AdamW).
    update.bytes = 7 * program.model.units[u].elements * real;
    program.ops.push_back(std::move(update));
  }
  renumber(program.ops);
  return program;
}

}  // namespace muster
