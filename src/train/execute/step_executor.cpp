#include "train/execute/step_executor.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <optional>
#include <thread>

#include "trace/vocabulary.h"
#include "train/execute/loss_factor.h"
#include "train/execute/stream_gate.h"
#include "train/optim/clipping.h"

namespace muster {
namespace {

// A run of elements of a unit's buffer that belongs to no parameter.
struct Gap {
  int64_t begin, end;
};
std::vector<Gap> gaps_of(const ModelSpec& spec, int unit) {
  const UnitSpec& u = spec.units[static_cast<size_t>(unit)];
  std::vector<Gap> gaps;
  int64_t at = 0;
  for (const int p : u.params) {
    const Param& param = spec.params[static_cast<size_t>(p)];
    if (param.offset > at) gaps.push_back({at, param.offset});
    at = param.offset + param.count();
  }
  if (at < u.elements) gaps.push_back({at, u.elements});
  return gaps;
}

// The trace name of an operation, under the ledger's words.
std::string trace_name_of(const StepProgram& program, const StepOp& op) {
  std::string name =
      fmt::format("{}.{}", op.stream == OpStream::comm ? trace_name::kComm : trace_name::kCompute,
                  op_kind_name(op.kind));
  if (op.block >= 0) {
    name += "." + program.model.blocks[static_cast<size_t>(op.block)].name;
  } else if (op.kind == OpKind::update) {
    name += "." + program.model.units[static_cast<size_t>(op.unit)].name;
  } else if (op.bucket >= 0) {
    name += "." + program.buckets[static_cast<size_t>(op.bucket)].name;
  }
  return name;
}

}  // namespace

std::string_view step_outcome_name(StepOutcome outcome) {
  switch (outcome) {
    case StepOutcome::updated:
      return "updated";
    case StepOutcome::loss_not_finite:
      return "loss_not_finite";
    case StepOutcome::gradient_not_finite:
      return "gradient_not_finite";
    case StepOutcome::no_valid_tokens:
      return "no_valid_tokens";
  }
  return "?";
}

template <class T>
struct StepExecutor<T>::State {
  // What an operation needs, looked up once.
  struct Prepared {
    Ctx<T> ctx;                   // block operations; the batch is set by run()
    int batch = -1;               // index of the micro-batch on this rank
    T* leaf = nullptr;            // the bucket's buffer: block operations, add (left), reduce (out)
    const T* right = nullptr;     // add
    std::vector<const T*> parts;  // reduce
    int64_t elements = 0;         // add, reduce
    int awaited = -1;             // newest operation of the other stream to wait for
    bool awaited_by_comm = false;  // a comm operation waits for this one
    NameId name;
  };

  State(PlannedStep planned, const StepParts<T>& p, const Options& o, Arena local_arena)
      : step(std::move(planned)), parts(p), options(o), local(std::move(local_arena)) {}

  const StepProgram& program() const { return step.program; }
  std::byte* memory(int buffer) {
    const BufferKind kind = program().buffers[static_cast<size_t>(buffer)].kind;
    return (is_shared(kind) ? shared_base : local_base) +
           step.memory.offset[static_cast<size_t>(buffer)];
  }

  void prepare();
  void prepare_block(const StepOp& op, Prepared& p);
  void comm_thread();
  Status run_comm(const StepOp& op, Prepared& p, TraceWriter& writer);
  Status reduce_losses();
  double node_loss(TreeNode node, int64_t round) const;
  void run_comp(const StepOp& op, Prepared& p, const StepRequest& request);
  void run_block(const StepOp& op, Prepared& p, const StepRequest& request);
  void open_leaf(const StepOp& op, T* unit_gradient);
  void clip_gradients();
  void poison(const StepOp& op);

  PlannedStep step;
  StepParts<T> parts;
  Options options;
  Arena local;
  std::optional<Arena> own_shared;  // a group of one keeps gradients in its own memory
  std::byte* local_base = nullptr;
  std::byte* shared_base = nullptr;

  std::vector<Prepared> prepared;
  std::vector<std::vector<Gap>> gaps;        // by unit
  std::vector<std::vector<DecayRun>> decay;  // by unit
  std::vector<T*> totals;                    // by unit: its summed gradient
  std::vector<int64_t> my_micro_batches;
  std::vector<TreeNode> nodes;  // of this rank's lanes
  std::vector<double> squares;  // by parameter

  // Of the running step.
  StreamGate gate;
  int64_t step_number = 0;
  int64_t valid_tokens = 0;         // mine until count is done, then the group's
  std::vector<double> losses;       // by local micro-batch
  std::vector<double> node_losses;  // [node][round]
  std::vector<const double*> node_parts;
  std::vector<double> round_losses;  // by round, over all ranks
  double loss = 0;
  Clipping clipping;
  StepOutcome outcome = StepOutcome::updated;
  TraceWriter no_writer;
  TraceWriter* writer = &no_writer;
  uint64_t comm_sequence = 0;  // equal on all ranks; never 0 in a record

  std::thread thread;
};

template <class T>
void StepExecutor<T>::State::prepare() {
  const StepProgram& prog = program();
  my_micro_batches = prog.layout.my_micro_batches();
  nodes = subtrees_of(prog.layout.my_lanes(), prog.layout.lanes);
  const auto rounds = static_cast<size_t>(prog.layout.rounds());
  losses.assign(my_micro_batches.size(), 0);
  node_losses.assign(nodes.size() * rounds, 0);
  round_losses.assign(rounds, 0);
  for (size_t n = 0; n < nodes.size(); ++n) node_parts.push_back(&node_losses[n * rounds]);
  squares.assign(prog.model.params.size(), 0);
  totals.assign(prog.model.units.size(), nullptr);
  for (size_t u = 0; u < prog.model.units.size(); ++u) {
    gaps.push_back(gaps_of(prog.model, static_cast<int>(u)));
    decay.push_back(decay_runs(prog.model, static_cast<int>(u), options.adamw.decay));
  }

  prepared.reserve(prog.ops.size());
  for (const StepOp& op : prog.ops) {
    Prepared p{Ctx<T>{parts.exec, BatchView{}}};
    for (const int id : op.after) {
      if (prog.ops[static_cast<size_t>(id)].stream != op.stream)
        p.awaited = std::max(p.awaited, id);
    }
    if (op.stream == OpStream::comm && p.awaited >= 0)
      prepared[static_cast<size_t>(p.awaited)].awaited_by_comm = true;
    if (parts.recorder != nullptr) p.name = parts.recorder->intern(trace_name_of(prog, op));
    const auto elements = [&](int bucket) {
      return prog.buckets[static_cast<size_t>(bucket)].elements;
    };
    switch (op.kind) {
      case OpKind::forward:
      case OpKind::recompute:
      case OpKind::backward_input:
      case OpKind::backward_weight:
        prepare_block(op, p);
        break;
      case OpKind::add:
        p.leaf = reinterpret_cast<T*>(memory(op.writes[0]));
        p.right = reinterpret_cast<const T*>(memory(op.reads[1]));
        p.elements = elements(op.bucket);
        break;
      case OpKind::reduce:
        for (const int b : op.reads) p.parts.push_back(reinterpret_cast<const T*>(memory(b)));
        p.leaf = reinterpret_cast<T*>(memory(op.writes[0]));
        p.elements = elements(op.bucket);
        break;
      case OpKind::update: {
        const GradientBucket& bucket = prog.buckets[static_cast<size_t>(op.bucket)];
        for (size_t i = 0; i < bucket.units.size(); ++i) {
          if (bucket.units[i] == op.unit)
            p.leaf = reinterpret_cast<T*>(memory(op.reads[0])) + bucket.first_element[i];
        }
        totals[static_cast<size_t>(op.unit)] = p.leaf;
        break;
      }
      default:
        break;
    }
    prepared.push_back(std::move(p));
  }
}

template <class T>
void StepExecutor<T>::State::prepare_block(const StepOp& op, Prepared& p) {
  const StepProgram& prog = program();
  p.batch = static_cast<int>(
      std::lower_bound(my_micro_batches.begin(), my_micro_batches.end(), op.micro_batch) -
      my_micro_batches.begin());
  Ctx<T>& ctx = p.ctx;
  ctx.params = parts.model.unit(op.unit);
  ctx.rope = parts.model.rope();
  const auto assign = [&](int b) {
    const StepBuffer& buffer = prog.buffers[static_cast<size_t>(b)];
    std::byte* at = memory(b);
    switch (buffer.kind) {
      case BufferKind::activation:
        (buffer.block == op.block ? ctx.y : const_cast<T*&>(ctx.x)) = reinterpret_cast<T*>(at);
        break;
      case BufferKind::costly:
        ctx.costly = at;
        break;
      case BufferKind::cheap:
        ctx.cheap = at;
        break;
      case BufferKind::token_loss:
        ctx.token_loss = reinterpret_cast<T*>(at);
        break;
      case BufferKind::slope:
        // A block writes the gradient of its input and reads that of the block after it.
        (buffer.block == op.block ? ctx.dx : const_cast<T*&>(ctx.dy)) = reinterpret_cast<T*>(at);
        break;
      case BufferKind::leaf: {
        const GradientBucket& bucket = prog.buckets[static_cast<size_t>(buffer.bucket)];
        for (size_t i = 0; i < bucket.units.size(); ++i) {
          if (bucket.units[i] == op.unit)
            ctx.grads = reinterpret_cast<T*>(at) + bucket.first_element[i];
        }
        break;
      }
    }
  };
  for (const int b : op.reads) assign(b);
  for (const int b : op.writes) assign(b);
}

// ---- comm stream

template <class T>
void StepExecutor<T>::State::comm_thread() {
  TraceWriter own_writer;
  if (parts.recorder != nullptr) own_writer = parts.recorder->attach("comm");
  while (gate.wait_open()) {
    for (size_t i = 0; i < program().ops.size(); ++i) {
      const StepOp& op = program().ops[i];
      if (op.stream != OpStream::comm) continue;
      Prepared& p = prepared[i];
      if (p.awaited >= 0 && !gate.wait_done(OpStream::comp, p.awaited)) break;
      if (Status status = run_comm(op, p, own_writer); !status.ok()) {
        gate.fail(std::move(status).error().context(
            fmt::format("step {}, {}", step_number, trace_name_of(program(), op))));
        break;
      }
      gate.done(OpStream::comm, static_cast<int>(i));
    }
    gate.finish_comm();
  }
  if (parts.recorder != nullptr) parts.recorder->detach();
}

template <class T>
Status StepExecutor<T>::State::run_comm(const StepOp& op, Prepared& p, TraceWriter& comm_writer) {
  const OpenSpan span(comm_writer, p.name, static_cast<uint64_t>(step_number), ++comm_sequence);
  switch (op.kind) {
    case OpKind::count:
      return parts.group
          .template all_reduce<int64_t>(std::span<int64_t>(&valid_tokens, 1), ReduceOp::sum)
          .wait();
    case OpKind::losses:
      return reduce_losses();
    case OpKind::reduce:
      return parts.group
          .template all_reduce_tree<T>(std::span<const T* const>(p.parts), program().layout.lanes,
                                       std::span<T>(p.leaf, static_cast<size_t>(p.elements)))
          .wait();
    default:
      MUSTER_CHECK(false, op.id);
      return {};
  }
}

// The loss sum of a subtree of this rank's lanes.
template <class T>
double StepExecutor<T>::State::node_loss(TreeNode node, int64_t round) const {
  const LeafRange range = leaves_of(node, program().layout.lanes);
  if (range.size() == 1) {
    const int64_t mine = program().layout.my_lanes().begin;
    const int64_t per_round = program().layout.my_lanes().size();
    return losses[static_cast<size_t>(round * per_round + range.begin - mine)];
  }
  const TreeNode left{node.level - 1, node.index * 2}, right{node.level - 1, node.index * 2 + 1};
  const double left_sum = node_loss(left, round);
  return leaves_of(right, program().layout.lanes).empty() ? left_sum
                                                          : left_sum + node_loss(right, round);
}

template <class T>
Status StepExecutor<T>::State::reduce_losses() {
  const size_t rounds = round_losses.size();
  for (size_t n = 0; n < nodes.size(); ++n) {
    for (size_t r = 0; r < rounds; ++r)
      node_losses[n * rounds + r] = node_loss(nodes[n], static_cast<int64_t>(r));
  }
  return parts.group
      .template all_reduce_tree<double>(std::span<const double* const>(node_parts),
                                        program().layout.lanes, std::span<double>(round_losses))
      .wait();
}

// ---- comp stream

template <class T>
void StepExecutor<T>::State::run_comp(const StepOp& op, Prepared& p, const StepRequest& request) {
  const Span span(*writer, p.name, static_cast<uint64_t>(request.step),
                  static_cast<uint64_t>(op.micro_batch + 1));
  switch (op.kind) {
    case OpKind::forward:
    case OpKind::recompute:
    case OpKind::backward_input:
    case OpKind::backward_weight:
      run_block(op, p, request);
      break;
    case OpKind::add:
      ops::add_in_place<T>(parts.exec, p.elements, p.right, p.leaf);
      break;
    case OpKind::clip:
      clip_gradients();
      break;
    case OpKind::update: {
      if (outcome != StepOutcome::updated) break;
      const ops::AdamWStep adamw =
          adamw_step(options.adamw, request.lr, request.updates_done, clipping.factor);
      update_unit<T>(parts.exec, decay[static_cast<size_t>(op.unit)], adamw, p.leaf,
                     parts.model.unit(op.unit), parts.moments.first(op.unit),
                     parts.moments.second(op.unit));
      break;
    }
    case OpKind::release:
      if (options.poison_released) poison(op);
      break;
    default:
      MUSTER_CHECK(false, op.id);
  }
}

template <class T>
void StepExecutor<T>::State::run_block(const StepOp& op, Prepared& p, const StepRequest& request) {
  Ctx<T>& ctx = p.ctx;
  ctx.batch = request.micro_batches[static_cast<size_t>(p.batch)];
  const Block<T>& block = parts.model.block(op.block);
  if (op.opens_leaf) open_leaf(op, ctx.grads);
  switch (op.kind) {
    case OpKind::forward:
      if (ctx.token_loss == nullptr) {
        block.forward(ctx);
        break;
      }
      ctx.loss_scale = static_cast<T>(loss_factor(valid_tokens));
      block.forward(ctx);
      losses[static_cast<size_t>(p.batch)] = sum_token_losses<T>(
          std::span<const T>(ctx.token_loss, static_cast<size_t>(ctx.batch.tokens)));
      break;
    case OpKind::recompute:
      if (op.cheap_only) {
        block.recompute_cheap(ctx);
      } else {
        block.forward(ctx);  // y is null: the last product is left out
      }
      break;
    case OpKind::backward_input:
      block.backward_input(ctx);
      break;
    default:
      block.backward_weight(ctx);
  }
}

// The leaf lies in memory that held something else; what no block writes is zero.
template <class T>
void StepExecutor<T>::State::open_leaf(const StepOp& op, T* unit_gradient) {
  for (const Gap& gap : gaps[static_cast<size_t>(op.unit)])
    std::fill(unit_gradient + gap.begin, unit_gradient + gap.end, T{0});
}

template <class T>
void StepExecutor<T>::State::clip_gradients() {
  const ModelSpec& model = program().model;
  double* out = squares.data();
  for (size_t u = 0; u < totals.size(); ++u) {
    squares_of_unit<T>(parts.exec, model, static_cast<int>(u), totals[u], out);
    out += model.units[u].params.size();
  }
  // Gradients are per valid token already: the factor went into the loss.
  clipping = clip(squares, 1.0, options.max_gradient_norm);
  double sum = round_losses[0];
  for (size_t r = 1; r < round_losses.size(); ++r) sum += round_losses[r];
  loss = valid_tokens > 0 ? sum / static_cast<double>(valid_tokens) : 0;
  outcome = valid_tokens == 0      ? StepOutcome::no_valid_tokens
            : !std::isfinite(loss) ? StepOutcome::loss_not_finite
            : !clipping.finite     ? StepOutcome::gradient_not_finite
                                   : StepOutcome::updated;
}

template <class T>
void StepExecutor<T>::State::poison(const StepOp& op) {
  for (const int b : op.reads) {
    const int64_t count =
        program().buffers[static_cast<size_t>(b)].bytes / static_cast<int64_t>(sizeof(T));
    std::fill_n(reinterpret_cast<T*>(memory(b)), count, std::numeric_limits<T>::quiet_NaN());
  }
}

// ---- the executor

template <class T>
Result<std::unique_ptr<StepExecutor<T>>> StepExecutor<T>::make(PlannedStep step,
                                                               const StepParts<T>& parts,
                                                               const Options& options) {
  const StepLayout& layout = step.program.layout;
  MUSTER_CHECK(layout.world == parts.group.world() && layout.rank == parts.group.rank(),
               layout.world, parts.group.world(), layout.rank.value, parts.group.rank().value);
  MUSTER_CHECK(step.program.model.config == parts.model.config() &&
               step.program.model.real == real_of<T>());
  MUSTER_TRY(validate(options.adamw));
  const auto local_bytes = static_cast<size_t>(step.memory.local_bytes);
  const auto shared_bytes = static_cast<size_t>(step.memory.shared_bytes);
  MUSTER_TRY(Arena local, Arena::make(local_bytes, true).context("memory of the step"));
  auto state = std::make_unique<State>(std::move(step), parts, options, std::move(local));
  state->local_base = static_cast<std::byte*>(state->local.take(local_bytes));
  if (layout.world == 1) {
    MUSTER_TRY(Arena own, Arena::make(shared_bytes, true).context("gradients of the step"));
    state->own_shared.emplace(std::move(own));
    state->shared_base = static_cast<std::byte*>(state->own_shared->take(shared_bytes));
  } else {
    MUSTER_TRY(const std::span<std::byte> shared,
               parts.group.shared_alloc(static_cast<int64_t>(shared_bytes))
                   .context("gradients of the step"));
    state->shared_base = shared.data();
  }
  if (parts.writer != nullptr) state->writer = parts.writer;
  state->prepare();
  State* raw = state.get();
  raw->thread = std::thread([raw] { raw->comm_thread(); });
  return std::unique_ptr<StepExecutor>(new StepExecutor(std::move(state)));
}

template <class T>
StepExecutor<T>::StepExecutor(std::unique_ptr<State> state) : state_(std::move(state)) {}

template <class T>
StepExecutor<T>::~StepExecutor() {
  state_->gate.close();
  state_->thread.join();
}

template <class T>
int64_t StepExecutor<T>::scratch_bytes(const PlannedStep& step, int threads) {
  const ModelSpec& model = step.program.model;
  const ModelConfig& c = model.config;
  ops::ScratchSizes sizes{};
  sizes.threads = threads;
  sizes.tokens = sizes.longest_segment = step.program.layout.work.tokens;
  sizes.H = c.heads;
  sizes.G = c.kv_heads;
  sizes.c = c.head_dim;
  sizes.widest = std::max({c.hidden_size, 2 * c.mlp_size, (c.heads + 2 * c.kv_heads) * c.head_dim});
  for (const Param& p : model.params) sizes.largest = std::max(sizes.largest, p.count());
  // The head adds its weight gradient chunk by chunk; fast mode measures that product into scratch.
  const int64_t measured = c.vocab_size * c.hidden_size * int64_t{sizeof(T)};
  constexpr int64_t kSlack = 64 << 10;  // roundings up to 64 bytes
  return step.memory.workspace + static_cast<int64_t>(ops::scratch_bytes<T>(sizes)) + measured +
         kSlack;
}

template <class T>
Result<StepReport> StepExecutor<T>::run(const StepRequest& request) {
  State& s = *state_;
  const StepProgram& program = s.program();
  MUSTER_CHECK(request.micro_batches.size() == s.my_micro_batches.size(),
               request.micro_batches.size(), s.my_micro_batches.size());
  const Nanos begin = s.parts.clock.now();
  s.step_number = request.step;
  s.valid_tokens = 0;
  for (const BatchView& batch : request.micro_batches) {
    MUSTER_CHECK(batch.tokens >= 1 && batch.tokens <= program.layout.work.tokens, batch.tokens,
                 program.layout.work.tokens);
    s.valid_tokens += count_valid(batch);
  }
  Nanos exposed{0}, held{0};
  bool asked = !s.options.before_update;
  s.gate.open();
  for (size_t i = 0; i < program.ops.size(); ++i) {
    const StepOp& op = program.ops[i];
    if (op.stream != OpStream::comp) continue;
    typename State::Prepared& p = s.prepared[i];
    if (p.awaited >= 0 && !s.gate.is_done(OpStream::comm, p.awaited)) {
      const Nanos from = s.parts.clock.now();
      if (!s.gate.wait_done(OpStream::comm, p.awaited)) break;
      exposed += s.parts.clock.now() - from;
    }
    if (s.gate.failed()) break;
    if (!asked && op.kind == OpKind::update && s.outcome == StepOutcome::updated) {
      asked = true;
      const Nanos from = s.parts.clock.now();
      s.options.before_update();
      held = s.parts.clock.now() - from;
    }
    s.run_comp(op, p, request);
    if (p.awaited_by_comm) s.gate.done(OpStream::comp, static_cast<int>(i));
  }
  MUSTER_TRY(s.gate.wait_finished());

  StepReport report;
  report.outcome = s.outcome;
  report.loss = s.loss;
  report.valid_tokens = s.valid_tokens;
  report.gradient_norm = s.clipping.norm;
  report.micro_batch_losses = s.losses;
  report.total = s.parts.clock.now() - begin;
  report.exposed_comm = exposed;
  report.before_update = held;
  report.compute = report.total - exposed - held;
  return report;
}

template <class T>
const StepProgram& StepExecutor<T>::program() const {
  return state_->program();
}

template <class T>
const T* StepExecutor<T>::gradient(int unit) const {
  return state_->totals[static_cast<size_t>(unit)];
}

template class StepExecutor<float>;
template class StepExecutor<double>;

}  // namespace muster
