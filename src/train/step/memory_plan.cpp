#include "train/step/memory_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

namespace muster {
namespace {

int64_t aligned(int64_t bytes) {
  return (bytes + kBufferAlignment - 1) / kBufferAlignment * kBufferAlignment;
}

bool meet(const Lifetime& a, const Lifetime& b) {
  return a.first <= b.last && b.first <= a.last;
}

// Places the buffers of one arena, largest first, each at the lowest offset that is free for its
// whole life (Pisarchyk & Lee, "Efficient Memory Management for Deep Neural Net Inference", 2020:
// greedy by size). Returns the bytes needed.
int64_t place(const StepProgram& program, const std::vector<Lifetime>& lifetimes, bool shared,
              std::vector<int64_t>& offset) {
  std::vector<int> order;
  for (size_t i = 0; i < program.buffers.size(); ++i) {
    if (is_shared(program.buffers[i].kind) == shared && lifetimes[i].first >= 0)
      order.push_back(static_cast<int>(i));
  }
  const auto bytes = [&](int b) { return aligned(program.buffers[static_cast<size_t>(b)].bytes); };
  std::stable_sort(order.begin(), order.end(), [&](int a, int b) { return bytes(a) > bytes(b); });
  int64_t end = 0;
  std::vector<int> placed;  // by offset
  for (const int b : order) {
    int64_t at = 0;
    for (const int other : placed) {
      if (!meet(lifetimes[static_cast<size_t>(b)], lifetimes[static_cast<size_t>(other)])) continue;
      const int64_t start = offset[static_cast<size_t>(other)];
      if (start >= at + bytes(b)) break;
      at = std::max(at, start + bytes(other));
    }
    offset[static_cast<size_t>(b)] = at;
    end = std::max(end, at + bytes(b));
    const auto where = std::upper_bound(
        placed.begin(), placed.end(), at,
        [&](int64_t value, int other) { return value < offset[static_cast<size_t>(other)]; });
    placed.insert(where, b);
  }
  return end;
}

int64_t sweep(const StepProgram& program, const std::vector<Lifetime>& lifetimes, bool shared) {
  std::vector<int64_t> change(program.ops.size() + 1, 0);
  for (size_t i = 0; i < program.buffers.size(); ++i) {
    if (is_shared(program.buffers[i].kind) != shared || lifetimes[i].first < 0) continue;
    const int64_t bytes = aligned(program.buffers[i].bytes);
    change[static_cast<size_t>(lifetimes[i].first)] += bytes;
    change[static_cast<size_t>(lifetimes[i].last) + 1] -= bytes;
  }
  int64_t live = 0, peak = 0;
  for (const int64_t c : change) peak = std::max(peak, live += c);
  return peak;
}

// ---- recompute

// What one block may drop.
struct Choice {
  int block = -1;
  bool cheap_only = true;
  int64_t bytes = 0;  // of a micro-batch's frame
  int64_t flops = 0;  // repeated for it
};

std::vector<Choice> choices(const StepProgram& program) {
  std::vector<Choice> cheap, costly;
  const Workload& work = program.layout.work;
  for (size_t b = 0; b < program.model.blocks.size(); ++b) {
    const BlockSpec& block = program.model.blocks[b];
    if (!block.recomputable()) continue;
    const int index = static_cast<int>(b);
    if (block.cheap_bytes(work.tokens) > 0)
      cheap.push_back({index, true, block.cheap_bytes(work.tokens), 0});
    const Cost cost = block.cost(work, BlockPhase::recompute);
    costly.push_back(
        {index, false, block.costly_bytes(work.tokens), cost.flops + cost.repeated_flops});
  }
  std::stable_sort(cheap.begin(), cheap.end(),
                   [](const Choice& a, const Choice& b) { return a.bytes > b.bytes; });
  std::stable_sort(costly.begin(), costly.end(), [](const Choice& a, const Choice& b) {
    return static_cast<double>(a.bytes) * static_cast<double>(std::max<int64_t>(b.flops, 1)) >
           static_cast<double>(b.bytes) * static_cast<double>(std::max<int64_t>(a.flops, 1));
  });
  cheap.insert(cheap.end(), costly.begin(), costly.end());
  return cheap;
}

enum class Keep : uint8_t { all, costly, nothing };

// The program with each block's frame kept as told.
StepProgram with_frames(const StepProgram& program, const std::vector<Keep>& keep) {
  StepProgram result = program;
  result.ops.clear();
  int id = static_cast<int>(program.ops.size());
  std::vector<int> renamed(program.buffers.size());
  std::iota(renamed.begin(), renamed.end(), 0);
  for (const StepOp& original : program.ops) {
    StepOp op = original;
    const bool backward = op.kind == OpKind::backward_input || op.kind == OpKind::backward_weight;
    if (!backward || keep[static_cast<size_t>(op.block)] == Keep::all) {
      result.ops.push_back(std::move(op));
      continue;
    }
    const bool cheap_only = keep[static_cast<size_t>(op.block)] == Keep::costly;
    if (op.kind == OpKind::backward_input) {
      const BlockSpec& block = program.model.blocks[static_cast<size_t>(op.block)];
      const BlockPhase phase = cheap_only ? BlockPhase::recompute_cheap : BlockPhase::recompute;
      const Cost cost = block.cost(program.layout.work, phase);
      StepOp again;
      again.id = id++;
      again.kind = OpKind::recompute;
      again.block = op.block;
      again.unit = op.unit;
      again.micro_batch = op.micro_batch;
      again.round = op.round;
      again.cheap_only = cheap_only;
      again.bytes = cost.bytes;
      again.repeated_flops = cost.flops + cost.repeated_flops;
      again.workspace = cost.workspace;
      for (const int b : op.reads) {
        const StepBuffer& buffer = program.buffers[static_cast<size_t>(b)];
        if (buffer.kind == BufferKind::activation) again.reads.push_back(b);
        if (buffer.kind == BufferKind::costly && cheap_only) again.reads.push_back(b);
        if (buffer.kind == BufferKind::cheap ||
            (buffer.kind == BufferKind::costly && !cheap_only)) {
          StepBuffer restored = buffer;
          restored.name += ".again";
          renamed[static_cast<size_t>(b)] = result.add_buffer(std::move(restored));
          again.writes.push_back(renamed[static_cast<size_t>(b)]);
        }
      }
      result.ops.push_back(std::move(again));
    }
    for (int& b : op.reads) b = renamed[static_cast<size_t>(b)];
    for (int& b : op.writes) b = renamed[static_cast<size_t>(b)];
    result.ops.push_back(std::move(op));
  }
  renumber(result.ops);
  result.frame_bytes_kept = result.frame_bytes_dropped = 0;
  for (size_t b = 0; b < program.model.blocks.size(); ++b) {
    const BlockSpec& block = program.model.blocks[b];
    const int64_t costly = block.costly_bytes(program.layout.work.tokens);
    const int64_t cheap = block.cheap_bytes(program.layout.work.tokens);
    (keep[b] == Keep::nothing ? result.frame_bytes_dropped : result.frame_bytes_kept) += costly;
    (keep[b] == Keep::all ? result.frame_bytes_kept : result.frame_bytes_dropped) += cheap;
  }
  return result;
}

}  // namespace

bool is_shared(BufferKind kind) {
  return kind == BufferKind::leaf;
}

std::vector<Lifetime> buffer_lifetimes(const StepProgram& program) {
  const int count = static_cast<int>(program.ops.size());
  // waited[i]: position of the first comp operation that waits for comm operation i, directly or by
  // waiting for a later one of its stream.
  std::vector<int> waited(program.ops.size(), count - 1);
  std::vector<int> comm;  // positions not waited for yet, rising
  for (int i = 0; i < count; ++i) {
    const StepOp& op = program.ops[static_cast<size_t>(i)];
    if (op.stream == OpStream::comm) {
      comm.push_back(i);
      continue;
    }
    for (const int awaited : op.after) {
      while (!comm.empty() && comm.front() <= awaited) {
        waited[static_cast<size_t>(comm.front())] = i;
        comm.erase(comm.begin());
      }
    }
  }
  std::vector<Lifetime> lifetimes(program.buffers.size());
  const auto use = [&](int buffer, int position, int until) {
    Lifetime& life = lifetimes[static_cast<size_t>(buffer)];
    if (life.first < 0) life.first = position;
    life.last = std::max(life.last, until);
  };
  for (int i = 0; i < count; ++i) {
    const StepOp& op = program.ops[static_cast<size_t>(i)];
    if (op.kind == OpKind::release) continue;
    const int until = op.stream == OpStream::comm ? waited[static_cast<size_t>(i)] : i;
    for (const int b : op.writes) use(b, i, until);
    for (const int b : op.reads) use(b, i, until);
  }
  return lifetimes;
}

MemoryPlan plan_memory(const StepProgram& program) {
  MemoryPlan plan;
  const std::vector<Lifetime> lifetimes = buffer_lifetimes(program);
  plan.offset.assign(program.buffers.size(), 0);
  plan.local_bytes = place(program, lifetimes, false, plan.offset);
  plan.shared_bytes = place(program, lifetimes, true, plan.offset);
  plan.local_sweep = sweep(program, lifetimes, false);
  plan.shared_sweep = sweep(program, lifetimes, true);
  for (const StepOp& op : program.ops) plan.workspace = std::max(plan.workspace, op.workspace);
  return plan;
}

Result<StepProgram> fit_memory(const StepProgram& program, Bytes budget) {
  std::vector<Keep> keep(program.model.blocks.size(), Keep::all);
  StepProgram fitting = with_frames(program, keep);
  if (budget.count == 0) return fitting;

  int64_t need = plan_memory(fitting).total();
  int64_t least = need;
  struct Drop {
    size_t block;
    Keep before, made;
  };
  std::vector<Drop> drops;
  for (const Choice& choice : choices(program)) {
    if (need <= budget.count) break;
    Keep& kept = keep[static_cast<size_t>(choice.block)];
    const Keep made = choice.cheap_only ? Keep::costly : Keep::nothing;
    drops.push_back({static_cast<size_t>(choice.block), kept, made});
    kept = made;
    fitting = with_frames(program, keep);
    need = plan_memory(fitting).total();
    least = std::min(least, need);
  }
  if (need > budget.count) {
    return Error(Code::no_space,
                 fmt::format("a step needs {} even with frames recomputed, and the memory budget "
                             "is {}: raise train.memory_budget or lower "
                             "batch.sequences_per_micro_batch",
                             format_bytes(Bytes{least}), format_bytes(budget)));
  }
  // A drop that a later one made needless is taken back, the dearest first. (A frame that is
  // restored as soon as it was dropped, the last block's as a rule, gains nothing.)
  for (auto drop = drops.rbegin(); drop != drops.rend(); ++drop) {
    if (keep[drop->block] != drop->made)
      continue;  // its costly part stays dropped, and the cheap one with it
    keep[drop->block] = drop->before;
    StepProgram candidate = with_frames(program, keep);
    if (plan_memory(candidate).total() <= budget.count) {
      fitting = std::move(candidate);
    } else {
      keep[drop->block] = drop->made;
    }
  }
  return fitting;
}

StepProgram release_buffers(StepProgram program) {
  const std::vector<Lifetime> lifetimes = buffer_lifetimes(program);
  std::vector<std::vector<int>> dying(program.ops.size());
  for (size_t b = 0; b < lifetimes.size(); ++b) {
    if (lifetimes[b].last >= 0)
      dying[static_cast<size_t>(lifetimes[b].last)].push_back(static_cast<int>(b));
  }
  int id = static_cast<int>(program.ops.size());
  std::vector<StepOp> ops;
  for (size_t i = 0; i < program.ops.size(); ++i) {
    ops.push_back(std::move(program.ops[i]));
    if (dying[i].empty()) continue;
    StepOp op;
    op.id = id++;
    op.kind = OpKind::release;
    op.micro_batch = ops.back().micro_batch;
    op.round = ops.back().round;
    op.unit = ops.back().unit;
    op.reads = std::move(dying[i]);
    ops.push_back(std::move(op));
  }
  program.ops = std::move(ops);
  renumber(program.ops);
  return program;
}

}  // namespace muster
