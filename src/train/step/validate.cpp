#include "train/step/validate.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <string>

namespace muster {
namespace {

Error broken(const StepOp& op, std::string_view what) {
  return Error(Code::internal, fmt::format("step program, operation {} ({}): {}", op.id,
                                           op_kind_name(op.kind), what));
}

// Edges: stream order and after.
std::vector<std::vector<int>> predecessors(const StepProgram& program) {
  std::vector<std::vector<int>> before(program.ops.size());
  int last[2] = {-1, -1};
  for (size_t i = 0; i < program.ops.size(); ++i) {
    const StepOp& op = program.ops[i];
    int& previous = last[static_cast<size_t>(op.stream)];
    if (previous >= 0) before[i].push_back(previous);
    previous = static_cast<int>(i);
    before[i].insert(before[i].end(), op.after.begin(), op.after.end());
  }
  return before;
}

// Position up to which (inclusive) each stream is known to be done before operation i starts.
// Valid for lists in which every edge points forward, which validate_order checks first.
std::vector<std::array<int, 2>> horizons(const StepProgram& program) {
  const auto before = predecessors(program);
  std::vector<std::array<int, 2>> done(program.ops.size(), {-1, -1});
  for (size_t i = 0; i < program.ops.size(); ++i) {
    for (const int p : before[i]) {
      for (size_t s = 0; s < 2; ++s)
        done[i][s] = std::max(done[i][s], done[static_cast<size_t>(p)][s]);
      auto& own = done[i][static_cast<size_t>(program.ops[static_cast<size_t>(p)].stream)];
      own = std::max(own, p);
    }
  }
  return done;
}

}  // namespace

Status validate_order(const StepProgram& program) {
  const int count = static_cast<int>(program.ops.size());
  for (int i = 0; i < count; ++i) {
    const StepOp& op = program.ops[static_cast<size_t>(i)];
    if (op.id != i) return broken(op, fmt::format("stands at position {}", i));
    for (const int id : op.after) {
      if (id < 0 || id >= count)
        return broken(op, fmt::format("waits for {}, which is not there", id));
    }
  }
  const auto before = predecessors(program);
  std::vector<int> waits(program.ops.size());
  std::vector<std::vector<int>> next(program.ops.size());
  for (int i = 0; i < count; ++i) {
    waits[static_cast<size_t>(i)] = static_cast<int>(before[static_cast<size_t>(i)].size());
    for (const int p : before[static_cast<size_t>(i)]) next[static_cast<size_t>(p)].push_back(i);
  }
  std::vector<int> ready;
  for (int i = 0; i < count; ++i) {
    if (waits[static_cast<size_t>(i)] == 0) ready.push_back(i);
  }
  int done = 0;
  while (!ready.empty()) {
    const int i = ready.back();
    ready.pop_back();
    ++done;
    for (const int n : next[static_cast<size_t>(i)]) {
      if (--waits[static_cast<size_t>(n)] == 0) ready.push_back(n);
    }
  }
  if (done != count) {
    for (int i = 0; i < count; ++i) {
      if (waits[static_cast<size_t>(i)] > 0)
        return broken(program.ops[static_cast<size_t>(i)], "waits for itself in a circle");
    }
  }
  for (int i = 0; i < count; ++i) {
    for (const int id : program.ops[static_cast<size_t>(i)].after) {
      if (id >= i)
        return broken(program.ops[static_cast<size_t>(i)],
                      fmt::format("waits for {}, which stands after it in the list", id));
    }
  }
  return {};
}

Status validate_buffers(const StepProgram& program, const MemoryPlan& plan) {
  MUSTER_TRY(validate_order(program));
  const auto done = horizons(program);
  const auto before = [&](int first, size_t second) {
    return done[second][static_cast<size_t>(program.ops[static_cast<size_t>(first)].stream)] >=
           first;
  };
  struct State {
    std::vector<int> uses;  // positions
    int last_write = -1;
    int released = -1;
  };
  std::vector<State> states(program.buffers.size());
  for (size_t i = 0; i < program.ops.size(); ++i) {
    const StepOp& op = program.ops[i];
    const auto name = [&](int b) { return program.buffers[static_cast<size_t>(b)].name; };
    const auto touch = [&](int b, bool write) -> Status {
      if (b < 0 || b >= static_cast<int>(program.buffers.size()))
        return broken(op, fmt::format("names buffer {}, which is not there", b));
      State& state = states[static_cast<size_t>(b)];
      if (state.released >= 0)
        return broken(op, fmt::format("{} was released by {}", name(b), state.released));
      if (!write && state.last_write < 0)
        return broken(op, fmt::format("reads {}, which nothing wrote", name(b)));
      if (!write && !before(state.last_write, i) && state.last_write != static_cast<int>(i)) {
        return broken(
            op, fmt::format("may read {} before {} has written it", name(b), state.last_write));
      }
      if (write) {
        for (const int user : state.uses) {
          if (user != static_cast<int>(i) && !before(user, i))
            return broken(op, fmt::format("may write {} while {} uses it", name(b), user));
        }
      }
      return {};
    };
    if (op.kind == OpKind::release) {
      for (const int b : op.reads) {
        MUSTER_TRY(touch(b, false));
        State& state = states[static_cast<size_t>(b)];
        for (const int user : state.uses) {
          if (!before(user, i))
            return broken(op, fmt::format("may release {} while {} uses it", name(b), user));
        }
        state.released = static_cast<int>(i);
      }
      continue;
    }
    for (const int b : op.reads) MUSTER_TRY(touch(b, false));
    for (const int b : op.writes) MUSTER_TRY(touch(b, true));
    for (const int b : op.reads) states[static_cast<size_t>(b)].uses.push_back(static_cast<int>(i));
    for (const int b : op.writes) {
      states[static_cast<size_t>(b)].uses.push_back(static_cast<int>(i));
      states[static_cast<size_t>(b)].last_write = static_cast<int>(i);
    }
  }

  // Two buffers may share memory only if one is released before the other is first written.
  for (size_t a = 0; a < states.size(); ++a) {
    if (states[a].uses.empty()) continue;
    if (states[a].released < 0) {
      return Error(Code::internal, fmt::format("step program: buffer {} is never released",
                                               program.buffers[a].name));
    }
    for (size_t b = 0; b < a; ++b) {
      if (states[b].uses.empty() ||
          is_shared(program.buffers[a].kind) != is_shared(program.buffers[b].kind))
        continue;
      const bool apart = plan.offset[a] + program.buffers[a].bytes <= plan.offset[b] ||
                         plan.offset[b] + program.buffers[b].bytes <= plan.offset[a];
      if (!apart && !before(states[a].released, static_cast<size_t>(states[b].uses[0])) &&
          !before(states[b].released, static_cast<size_t>(states[a].uses[0]))) {
        return Error(Code::internal,
                     fmt::format("step program: buffers {} and {} overlap while both live",
                                 program.buffers[a].name, program.buffers[b].name));
      }
    }
  }
  for (size_t b = 0; b < states.size(); ++b) {
    const int64_t arena = is_shared(program.buffers[b].kind) ? plan.shared_bytes : plan.local_bytes;
    if (plan.offset[b] < 0 || plan.offset[b] % kBufferAlignment != 0 ||
        (!states[b].uses.empty() && plan.offset[b] + program.buffers[b].bytes > arena)) {
      return Error(Code::internal,
                   fmt::format("step program: buffer {} at offset {} does not fit its arena of {}",
                               program.buffers[b].name, plan.offset[b], arena));
    }
  }
  return {};
}

Status validate_memory(const MemoryPlan& plan, Bytes budget) {
  if (budget.count > 0 && plan.total() > budget.count) {
    return Error(Code::internal,
                 fmt::format("step program: {} planned, the budget is {}",
                             format_bytes(Bytes{plan.total()}), format_bytes(budget)));
  }
  return {};
}

Status validate_leaves(const StepProgram& program) {
  const int64_t lanes = program.layout.lanes;
  // What each leaf buffer holds, as the sum written out: "3", "(2+3)", "r0[(0+1)]".
  std::map<int, std::string> holds;
  std::map<std::pair<int, int64_t>, int> writers;  // (unit, g) -> writes so far
  std::vector<int64_t> newest(program.model.units.size(), -1);

  // The tree's own text for a node, from its definition alone.
  const auto expected = [&](auto&& self, int64_t round, TreeNode node) -> std::string {
    const LeafRange range = leaves_of(node, lanes);
    if (node.level == 0) return fmt::format("{}", round * lanes + range.begin);
    const TreeNode left{node.level - 1, node.index * 2}, right{node.level - 1, node.index * 2 + 1};
    if (leaves_of(right, lanes).empty()) return self(self, round, left);
    return fmt::format("({}+{})", self(self, round, left), self(self, round, right));
  };
  const std::vector<TreeNode> nodes = subtrees_of(program.layout.my_lanes(), lanes);
  const TreeNode root{root_level(lanes), 0};

  std::map<int, std::string> totals;  // bucket -> what clip and update read
  for (const StepOp& op : program.ops) {
    switch (op.kind) {
      case OpKind::forward:
      case OpKind::backward_weight: {
        if (op.bucket < 0) break;
        const int64_t g = op.micro_batch;
        int64_t& last = newest[static_cast<size_t>(op.unit)];
        if (g < last)
          return broken(op, fmt::format("leaf {} of unit {} after leaf {}", g, op.unit, last));
        last = g;
        const bool opens = writers[{op.unit, g}]++ == 0;
        if (opens != op.opens_leaf) return broken(op, "the first writer of a leaf must open it");
        for (const int b : op.writes) {
          if (program.buffers[static_cast<size_t>(b)].kind == BufferKind::leaf)
            holds[b] = fmt::format("{}", g);
        }
        break;
      }
      case OpKind::add:
        // A total of a later round is added to the rounds before it.
        holds[op.writes[0]] = fmt::format("({}+{})", holds[op.reads[0]], holds[op.reads[1]]);
        break;
      case OpKind::reduce: {
        if (op.reads.size() != nodes.size())
          return broken(op, fmt::format("{} parts, not {}", op.reads.size(), nodes.size()));
        for (size_t n = 0; n < nodes.size(); ++n) {
          const std::string want = expected(expected, op.round, nodes[n]);
          if (holds[op.reads[n]] != want)
            return broken(op, fmt::format("part {} is {}, not {}", n, holds[op.reads[n]], want));
        }
        holds[op.writes[0]] = expected(expected, op.round, root);
        break;
      }
      case OpKind::clip:
        for (const int b : op.reads)
          totals[program.buffers[static_cast<size_t>(b)].bucket] = holds[b];
        break;
      case OpKind::update: {
        std::string want = expected(expected, 0, root);
        for (int64_t r = 1; r < program.layout.rounds(); ++r)
          want = fmt::format("({}+{})", want, expected(expected, r, root));
        if (holds[op.reads[0]] != want || totals[op.bucket] != want) {
          return broken(op, fmt::format("the gradient is {}, not {}", holds[op.reads[0]], want));
        }
        break;
      }
      default:
        break;
    }
  }
  const auto mine = program.layout.my_micro_batches();
  for (const BlockSpec& block : program.model.blocks) {
    for (const int64_t g : mine) {
      if (writers[{block.unit, g}] == 0) {
        return Error(
            Code::internal,
            fmt::format("step program: no gradient of {} for micro-batch {}", block.name, g));
      }
    }
  }
  return {};
}

Status validate_flops(const StepProgram& program) {
  const int64_t want = program.model.training_flops(program.layout.work) *
                       static_cast<int64_t>(program.layout.my_micro_batches().size());
  if (program.flops() != want) {
    return Error(Code::internal, fmt::format("step program: operations make {} FLOPs, the model {}",
                                             program.flops(), want));
  }
  return {};
}

Status validate_step(const StepProgram& program, const MemoryPlan& plan, Bytes budget) {
  MUSTER_TRY(validate_order(program));
  MUSTER_TRY(validate_buffers(program, plan));
  MUSTER_TRY(validate_memory(plan, budget));
  MUSTER_TRY(validate_leaves(program));
  MUSTER_TRY(validate_flops(program));
  return {};
}

}  // namespace muster
