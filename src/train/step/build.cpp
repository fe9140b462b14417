#include "train/step/build.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

namespace muster {
namespace {

// Appends the operations of one micro-batch after another.
class Builder {
 public:
  explicit Builder(StepProgram& program) : program_(program) {}

  void count() {
    StepOp op;
    op.kind = OpKind::count;
    op.stream = OpStream::comm;
    op.bytes = 8;
    count_ = push(std::move(op));
  }

  void micro_batch(int64_t g) {
    g_ = g;
    const int blocks = static_cast<int>(program_.model.blocks.size());
    frames_.assign(static_cast<size_t>(blocks), {});
    outputs_.assign(static_cast<size_t>(blocks), -1);
    leaves_.assign(program_.model.units.size(), -1);
    opened_.assign(program_.model.units.size(), false);
    for (int b = 0; b < blocks; ++b) forward(b);
    int slope = -1;  // gradient of the output of the block at hand
    for (int b = blocks - 1; b >= 0; --b) slope = backward(b, slope);
  }

 private:
  const BlockSpec& block(int b) const { return program_.model.blocks[static_cast<size_t>(b)]; }
  int64_t tokens() const { return program_.layout.work.tokens; }
  int64_t width_bytes() const {
    return tokens() * program_.model.config.hidden_size * real_bytes(program_.model.real);
  }

  int push(StepOp op) {
    op.id = static_cast<int>(program_.ops.size());
    program_.ops.push_back(std::move(op));
    return program_.ops.back().id;
  }

  int block_buffer(BufferKind kind, std::string_view prefix, int b, int64_t bytes) {
    return program_.add_buffer(
        {fmt::format("{}.{}.g{}", prefix, block(b).name, g_), kind, bytes, b, -1, g_});
  }

  int leaf(int unit) {
    int& buffer = leaves_[static_cast<size_t>(unit)];
    if (buffer < 0) {
      const int bucket = program_.bucket_of_unit[static_cast<size_t>(unit)];
      const GradientBucket& group = program_.buckets[static_cast<size_t>(bucket)];
      buffer =
          program_.add_buffer({fmt::format("grad.{}.g{}", group.name, g_), BufferKind::leaf,
                               group.elements * real_bytes(program_.model.real), -1, bucket, g_});
    }
    return buffer;
  }

  StepOp block_op(OpKind kind, BlockPhase phase, int b) {
    StepOp op;
    op.kind = kind;
    op.block = b;
    op.unit = block(b).unit;
    op.micro_batch = g_;
    op.round = g_ / program_.layout.lanes;
    const Cost cost = block(b).cost(program_.layout.work, phase);
    op.flops = cost.flops;
    op.repeated_flops = cost.repeated_flops;
    op.bytes = cost.bytes;
    op.workspace = cost.workspace;
    return op;
  }

  void write_leaf(StepOp& op) {
    op.bucket = program_.bucket_of_unit[static_cast<size_t>(op.unit)];
    op.writes.push_back(leaf(op.unit));
    op.opens_leaf = !opened_[static_cast<size_t>(op.unit)];
    opened_[static_cast<size_t>(op.unit)] = true;
  }

  void forward(int b) {
    StepOp op = block_op(OpKind::forward, BlockPhase::forward, b);
    if (b > 0) op.reads.push_back(outputs_[static_cast<size_t>(b) - 1]);
    Frame& frame = frames_[static_cast<size_t>(b)];
    if (block(b).kind == BlockKind::head) {
      op.writes.push_back(block_buffer(BufferKind::token_loss, "loss", b,
                                       tokens() * real_bytes(program_.model.real)));
      op.after.push_back(count_);  // the factor 1 / valid tokens
      write_leaf(op);
    } else {
      outputs_[static_cast<size_t>(b)] =
          block_buffer(BufferKind::activation, "y", b, width_bytes());
      op.writes.push_back(outputs_[static_cast<size_t>(b)]);
    }
    if (const int64_t bytes = block(b).costly_bytes(tokens()); bytes > 0)
      frame.push_back(block_buffer(BufferKind::costly, "costly", b, bytes));
    if (const int64_t bytes = block(b).cheap_bytes(tokens()); bytes > 0)
      frame.push_back(block_buffer(BufferKind::cheap, "cheap", b, bytes));
    op.writes.insert(op.writes.end(), frame.begin(), frame.end());
    push(std::move(op));
  }

  // Returns the gradient of the block's input.
  int backward(int b, int slope) {
    std::vector<int> reads;
    if (b > 0) reads.push_back(outputs_[static_cast<size_t>(b) - 1]);
    if (slope >= 0) reads.push_back(slope);
    const Frame& frame = frames_[static_cast<size_t>(b)];
    reads.insert(reads.end(), frame.begin(), frame.end());

    int dx = -1;
    if (block(b).kind != BlockKind::embedding) {
      StepOp input = block_op(OpKind::backward_input, BlockPhase::backward_input, b);
      dx = block_buffer(BufferKind::slope, "dx", b, width_bytes());
      input.reads = reads;
      input.writes.push_back(dx);
      // What backward_weight needs is left in the frame.
      input.writes.insert(input.writes.end(), frame.begin(), frame.end());
      push(std::move(input));
    }
    StepOp weight = block_op(OpKind::backward_weight, BlockPhase::backward_weight, b);
    weight.reads = std::move(reads);
    write_leaf(weight);
    push(std::move(weight));
    return dx;
  }

  using Frame = std::vector<int>;
  StepProgram& program_;
  int count_ = -1;
  int64_t g_ = 0;
  std::vector<Frame> frames_;
  std::vector<int> outputs_;
  std::vector<int> leaves_;   // by unit
  std::vector<bool> opened_;  // by unit
};

}  // namespace

Result<StepProgram> build_step(ModelSpec model, const StepLayout& layout) {
  MUSTER_TRY(check_layout(layout));
  StepProgram program;
  program.layout = layout;
  program.model = std::move(model);
  for (size_t u = 0; u < program.model.units.size(); ++u) {
    const UnitSpec& unit = program.model.units[u];
    program.buckets.push_back({unit.name, {static_cast<int>(u)}, {0}, unit.elements});
    program.bucket_of_unit.push_back(static_cast<int>(u));
  }
  Builder builder(program);
  builder.count();
  for (const int64_t g : layout.my_micro_batches()) builder.micro_batch(g);
  return program;
}

StepProgram bucket_gradients(StepProgram program, int64_t least_bytes) {
  const int64_t element_bytes = real_bytes(program.model.real);
  const int units = static_cast<int>(program.model.units.size());
  std::vector<int> completion;  // last layer first, root (unit 0) last
  for (int u = units - 1; u >= 0; --u) completion.push_back(u);

  std::vector<GradientBucket> buckets;
  for (const int u : completion) {
    const UnitSpec& unit = program.model.units[static_cast<size_t>(u)];
    if (buckets.empty() || buckets.back().elements * element_bytes >= least_bytes)
      buckets.emplace_back();
    GradientBucket& bucket = buckets.back();
    bucket.name += (bucket.name.empty() ? "" : "+") + unit.name;
    bucket.units.push_back(u);
    bucket.first_element.push_back(bucket.elements);
    bucket.elements += unit.elements;
    program.bucket_of_unit[static_cast<size_t>(u)] = static_cast<int>(buckets.size()) - 1;
  }
  program.buckets = std::move(buckets);

  // The leaves of a bucket's units become one buffer: the first one met stands for all.
  std::map<std::pair<int, int64_t>, int> joined;
  std::vector<int> renamed(program.buffers.size(), -1);
  std::vector<StepBuffer> kept;
  for (size_t i = 0; i < program.buffers.size(); ++i) {
    StepBuffer buffer = program.buffers[i];
    if (buffer.kind == BufferKind::leaf) {
      // build_step made one bucket per unit, with the unit's number.
      buffer.bucket = program.bucket_of_unit[static_cast<size_t>(buffer.bucket)];
      const auto [it, fresh] =
          joined.try_emplace({buffer.bucket, buffer.micro_batch}, static_cast<int>(kept.size()));
      renamed[i] = it->second;
      if (!fresh) continue;
      const GradientBucket& bucket = program.buckets[static_cast<size_t>(buffer.bucket)];
      buffer.bytes = bucket.elements * element_bytes;
      buffer.name = fmt::format("grad.{}.g{}", bucket.name, buffer.micro_batch);
    }
    renamed[i] = static_cast<int>(kept.size());
    kept.push_back(std::move(buffer));
  }
  program.buffers = std::move(kept);
  for (StepOp& op : program.ops) {
    for (int& b : op.reads) b = renamed[static_cast<size_t>(b)];
    for (int& b : op.writes) b = renamed[static_cast<size_t>(b)];
    if (op.bucket >= 0) op.bucket = program.bucket_of_unit[static_cast<size_t>(op.unit)];
  }
  return program;
}

}  // namespace muster
