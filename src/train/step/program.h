// StepProgram: one training step of one rank as a typed list of operations over the model's blocks
// and this rank's micro-batches. Passes (build.h, accumulate.h, reduce.h, recompute.h, finish.h)
// map list to list, validators (validate.h) prove what must hold, memory_plan.h places the buffers,
// cost_model.h predicts it and train/execute runs it.
//
// Streams: an operation starts when the one before it on its stream and all of `after` are done.
// Buffers are the step's own memory; parameters, moments and the batch are not in it. A buffer is
// first written, then read or written further, then released once, on the comp stream.
//
// Gradients (docs/design/step.md): the gradient of a (bucket, micro-batch) is a *leaf* written from
// nothing; leaves of a round are summed in the balanced tree of comm/rank_tree.h over the lanes.
// A bucket is one unit, or several small neighbours whose flat buffers lie back to back.
//
// Plain values; any thread.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "comm/rank_tree.h"
#include "train/spec/block_spec.h"

namespace muster {

enum class OpKind : uint8_t {
  count,            // comm: valid target tokens of the step, summed over ranks
  forward,          // block, micro-batch
  recompute,        // block, micro-batch: restores the dropped part of the frame
  backward_input,   // block, micro-batch
  backward_weight,  // block, micro-batch: into the bucket's leaf
  add,              // bucket: reads[0] += reads[1]
  reduce,           // comm, bucket: reads = this rank's subtrees of the round; the sum to writes[0]
  losses,           // comm: token loss sums of all micro-batches to all ranks
  clip,             // global gradient norm, its factor, and whether the step counts
  update,           // unit: optimizer
  release,          // reads = buffers whose memory is free from here on
};
std::string_view op_kind_name(OpKind kind);

enum class OpStream : uint8_t { comp, comm };
std::string_view op_stream_name(OpStream stream);

enum class BufferKind : uint8_t {
  activation,  // a block's output, kept as the next block's input
  costly,      // frame parts (block_spec.h)
  cheap,
  token_loss,  // [T]
  slope,       // gradient of a block's input or output
  leaf,        // gradient of a bucket: leaf, subtree sum and, after reduce, the total
};
std::string_view buffer_kind_name(BufferKind kind);

struct StepBuffer {
  std::string name;  // "x.layers.0.mlp.g3"
  BufferKind kind = BufferKind::activation;
  int64_t bytes = 0;
  int block = -1;   // activation, costly, cheap, token_loss, slope
  int bucket = -1;  // leaf
  int64_t micro_batch = -1;
};

struct StepOp {
  int id = 0;  // position in the list
  OpKind kind = OpKind::forward;
  OpStream stream = OpStream::comp;
  int unit = -1;
  int block = -1;
  int bucket = -1;
  int64_t micro_batch =
      -1;  // global index g = round * lanes + lane; the last one of an add or reduce
  int64_t round = -1;
  int stage = 0;  // pipeline stage
  std::vector<int> after;
  std::vector<int> reads, writes;  // buffers
  int64_t bytes = 0;               // moved to and from memory; reduce: payload
  int64_t flops = 0;               // matrix products and attention, part of the model's count
  int64_t repeated_flops = 0;      // the same, done again
  int64_t workspace = 0;           // scratch bytes while it runs
  bool cheap_only = false;         // recompute: only the cheap part
  bool opens_leaf = false;         // forward, backward_weight: first writer of its leaf
};

// Units whose gradients are summed and sent as one.
struct GradientBucket {
  std::string name;                    // "layers.3", "layers.3+layers.2"
  std::vector<int> units;              // in the order their gradients are completed
  std::vector<int64_t> first_element;  // of each unit in the bucket
  int64_t elements = 0;
};

// Who does what: fixed for a run but for world and rank.
struct StepLayout {
  int64_t micro_batches = 8;  // of a step, over all ranks
  int64_t lanes = 8;          // V, divides micro_batches
  int world = 1;
  Rank rank{0};
  Workload work;  // of one micro-batch: tokens and the most pairs they can have

  int64_t rounds() const { return micro_batches / lanes; }
  LeafRange my_lanes() const { return lane_range(lanes, world, rank); }
  // Global indices of this rank's micro-batches, rising.
  std::vector<int64_t> my_micro_batches() const;
};
// Errors: invalid_argument: counts below 1, lanes that do not divide, more ranks than lanes.
Status check_layout(const StepLayout& layout);

struct StepProgram {
  StepLayout layout;
  ModelSpec model;
  std::vector<GradientBucket> buckets;
  std::vector<int> bucket_of_unit;
  std::vector<StepBuffer> buffers;
  std::vector<StepOp> ops;
  // What recompute chose, for the head line: bytes of a micro-batch's frames kept and dropped.
  int64_t frame_bytes_kept = 0, frame_bytes_dropped = 0;

  int add_buffer(StepBuffer buffer);
  // Model FLOPs and repeated FLOPs of this rank's step.
  int64_t flops() const;
  int64_t repeated_flops() const;
};

// Gives every operation its position as id and maps `after` to the new positions. Passes insert
// operations with ids of their own; each id in `after` must be in the list.
void renumber(std::vector<StepOp>& ops);

}  // namespace muster
