// A few training steps of a tiny model on ranks that are threads, for the tests of this room.
#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/philox.h"
#include "comm/shm_group.h"
#include "train/execute/loss_factor.h"
#include "train/execute/step_executor.h"
#include "train/model/straight_pass.h"
#include "train/optim/clipping.h"

namespace muster::step_rig {

constexpr int64_t kTokens = 24;
constexpr uint64_t kSeed = 5;

inline ModelConfig tiny(Family family) {
  ModelConfig m;
  m.family = family;
  m.vocab_size = 70;
  m.hidden_size = 24;
  m.layers = 2;
  m.heads = 4;
  m.kv_heads = family == Family::llama ? 2 : 4;
  m.head_dim = 6;
  m.mlp_size = 40;
  m.context = 32;
  m.tie_embeddings = family == Family::gpt2;
  return m;
}

// Micro-batch g of a step: a pure function of both, with documents of uneven length and ignored
// targets.
struct Batch {
  std::vector<int32_t> ids, targets, positions, segments{0};

  Batch(int64_t vocabulary, int64_t step, int64_t g) {
    const auto draw = [&](uint64_t below, uint64_t what, int64_t i) {
      return philox_below(below, kSeed, static_cast<uint64_t>(step * 1000 + g) << 8 | what,
                          static_cast<uint64_t>(i) << 32);
    };
    int32_t position = 0;
    for (int64_t t = 0; t < kTokens; ++t) {
      ids.push_back(static_cast<int32_t>(draw(static_cast<uint64_t>(vocabulary), 0, t)));
      const bool ignored = draw(5, 1, t) == 0;
      targets.push_back(
          ignored ? -1 : static_cast<int32_t>(draw(static_cast<uint64_t>(vocabulary), 2, t)));
      if (t > 0 && draw(6, 3, t) == 0) {
        segments.push_back(static_cast<int32_t>(t));
        position = 0;
      }
      positions.push_back(position++);
    }
    segments.push_back(static_cast<int32_t>(kTokens));
  }
  BatchView view() const {
    return {kTokens, ids.data(), targets.data(), positions.data(), segments};
  }
};

struct Case {
  ModelConfig model = tiny(Family::llama);
  int64_t micro_batches = 8, lanes = 8;
  int world = 1;
  int threads = 1;
  int64_t budget = 0;
  int64_t bucket = 0;
  ops::Isa isa = ops::best_isa();
  int64_t steps = 3;
  bool poison = true;
};

// What a run leaves, as bytes: equal runs give equal Outcomes.
struct Outcome {
  std::vector<std::string> state;  // by unit: parameters, first, second moment
  std::vector<double> losses, norms;
  bool operator==(const Outcome&) const = default;
};

template <class T>
std::string bytes_of(const T* data, int64_t count) {
  std::string bytes(static_cast<size_t>(count) * sizeof(T), '\0');
  std::memcpy(bytes.data(), data, bytes.size());
  return bytes;
}

inline AdamW adamw_settings() {
  AdamW a;
  a.weight_decay = 0.1;
  return a;
}
constexpr double kMaxNorm = 0.5;
inline double rate(int64_t step) {
  return 0.01 / static_cast<double>(step);
}

// One rank with all it needs.
template <class T>
struct Worker {
  std::unique_ptr<Model<T>> model;
  Moments<T> moments;
  ThreadTeam team;
  Arena scratch;
  ops::Exec exec;
  RealClock clock;
  std::unique_ptr<StepExecutor<T>> executor;

  Worker(std::unique_ptr<Model<T>> m, Moments<T> mo, int threads, Arena a, ops::Isa isa)
      : model(std::move(m)),
        moments(std::move(mo)),
        team(threads),
        scratch(std::move(a)),
        exec{team, scratch, isa, ops::Mode::strict} {}

  static std::unique_ptr<Worker> make(const Case& c, Communicator& group,
                                      Recorder* recorder = nullptr, TraceWriter* writer = nullptr,
                                      std::function<void()> before_update = {}) {
    auto model = Model<T>::make(c.model).value();
    StepLayout layout;
    layout.micro_batches = c.micro_batches;
    layout.lanes = c.lanes;
    layout.world = group.world();
    layout.rank = group.rank();
    layout.work = Workload::causal(1, kTokens);
    PlannedStep step =
        plan_step(model->spec(), layout,
                  {.memory_budget = Bytes{c.budget}, .least_bucket = Bytes{c.bucket}})
            .value();
    Moments<T> moments = Moments<T>::make(model->spec()).value();
    Arena scratch =
        Arena::make(static_cast<size_t>(StepExecutor<T>::scratch_bytes(step, c.threads)), false)
            .value();
    auto worker = std::make_unique<Worker>(std::move(model), std::move(moments), c.threads,
                                           std::move(scratch), c.isa);
    worker->model->initialize(kSeed, worker->team);
    typename StepExecutor<T>::Options options;
    options.adamw = adamw_settings();
    options.max_gradient_norm = kMaxNorm;
    options.poison_released = c.poison;
    options.before_update = std::move(before_update);
    worker->executor = StepExecutor<T>::make(std::move(step),
                                             {*worker->model, worker->moments, worker->exec, group,
                                              worker->clock, recorder, writer},
                                             options)
                           .value();
    return worker;
  }

  Result<StepReport> run(int64_t step, const std::vector<Batch>& batches) {
    std::vector<BatchView> views;
    for (const Batch& b : batches) views.push_back(b.view());
    return executor->run({step, views, rate(step), step - 1});
  }
  std::vector<Batch> batches(int64_t step) const {
    std::vector<Batch> list;
    for (const int64_t g : executor->program().layout.my_micro_batches())
      list.emplace_back(model->config().vocab_size, step, g);
    return list;
  }
  std::vector<std::string> state() const {
    std::vector<std::string> list;
    for (size_t u = 0; u < model->spec().units.size(); ++u) {
      const int unit = static_cast<int>(u);
      const int64_t count = model->spec().units[u].elements;
      list.push_back(bytes_of<T>(std::as_const(*model).unit(unit), count));
      list.push_back(bytes_of<T>(std::as_const(moments).first(unit), count));
      list.push_back(bytes_of<T>(std::as_const(moments).second(unit), count));
    }
    return list;
  }
};

inline GroupOptions group_options() {
  GroupOptions options;
  options.timeout = std::chrono::seconds{60};
  options.staging_bytes = 1 << 16;
  options.shared_bytes = 64 << 20;
  return options;
}

// Calls body(group) on `world` threads, one rank each, and waits for all.
inline void on_ranks(int world, const GroupOptions& options,
                     const std::function<void(Communicator&)>& body) {
  static const RealClock clock;
  if (world == 1) {
    auto group = solo_group(clock, options).value();
    body(*group);
    return;
  }
  auto segment = ShmSegment::create(world, options).value();
  std::vector<std::thread> threads;
  for (int rank = 0; rank < world; ++rank) {
    threads.emplace_back([&, rank] {
      auto group = join_shm_group(clock, segment, Rank{rank}, options).value();
      body(*group);
    });
  }
  for (std::thread& t : threads) t.join();
}

// Trains c.steps steps; every rank must end in the same state, which is returned.
template <class T>
Outcome execute(const Case& c, int64_t* repeated_flops = nullptr) {
  std::vector<Outcome> outcomes(static_cast<size_t>(c.world));
  on_ranks(c.world, group_options(), [&](Communicator& group) {
    auto worker = Worker<T>::make(c, group);
    Outcome& outcome = outcomes[static_cast<size_t>(group.rank().value)];
    for (int64_t step = 1; step <= c.steps; ++step) {
      const auto report = worker->run(step, worker->batches(step));
      ASSERT_TRUE(report.ok()) << report.error().to_string();
      EXPECT_EQ(report->outcome, StepOutcome::updated);
      outcome.losses.push_back(report->loss);
      outcome.norms.push_back(report->gradient_norm);
    }
    outcome.state = worker->state();
    if (repeated_flops != nullptr && group.rank().value == 0)
      *repeated_flops = worker->executor->program().repeated_flops();
  });
  for (const Outcome& o : outcomes) EXPECT_EQ(o, outcomes[0]);
  return outcomes[0];
}

// The same training written down in a straight line: no program, no plan, no ranks.
template <class T>
class Reference {
 public:
  explicit Reference(const Case& c)
      : case_(c),
        model_(Model<T>::make(c.model).value()),
        moments_(Moments<T>::make(model_->spec()).value()),
        team_(1),
        scratch_(Arena::make(size_t{64} << 20, false).value()),
        exec_{team_, scratch_, ops::best_isa(), ops::Mode::strict},
        pass_(*model_, kTokens) {
    model_->initialize(kSeed, team_);
  }

  Outcome train() {
    Outcome outcome;
    for (int64_t step = 1; step <= case_.steps; ++step) {
      const auto [loss, norm] = one_step(step);
      outcome.losses.push_back(loss);
      outcome.norms.push_back(norm);
    }
    for (size_t u = 0; u < model_->spec().units.size(); ++u) {
      const int unit = static_cast<int>(u);
      const int64_t count = model_->spec().units[u].elements;
      outcome.state.push_back(bytes_of<T>(model_->unit(unit), count));
      outcome.state.push_back(bytes_of<T>(moments_.first(unit), count));
      outcome.state.push_back(bytes_of<T>(moments_.second(unit), count));
    }
    return outcome;
  }

 private:
  // Loss sum and gradients of lanes [begin, end) of a round, which the tree halves at the largest
  // power of two.
  struct Sum {
    double loss = 0;
    std::vector<std::vector<T>> grads;  // by unit
  };
  Sum sum(int64_t step, int64_t round, int64_t begin, int64_t end, T scale) {
    if (end - begin == 1) {
      const Batch batch(case_.model.vocab_size, step, round * case_.lanes + begin);
      Sum leaf;
      std::vector<T*> views;
      for (const UnitSpec& u : model_->spec().units)
        leaf.grads.emplace_back(static_cast<size_t>(u.elements), T{0});
      for (auto& g : leaf.grads) views.push_back(g.data());
      std::vector<T> losses(kTokens);
      pass_.gradients(exec_, batch.view(), scale, T{0}, views, losses.data());
      for (const T l : losses) leaf.loss += static_cast<double>(l);
      return leaf;
    }
    int64_t half = 1;
    while (half * 2 < end - begin) half *= 2;
    Sum left = sum(step, round, begin, begin + half, scale);
    const Sum right = sum(step, round, begin + half, end, scale);
    add(left, right);
    return left;
  }
  static void add(Sum& left, const Sum& right) {
    left.loss += right.loss;
    for (size_t u = 0; u < left.grads.size(); ++u) {
      for (size_t i = 0; i < left.grads[u].size(); ++i) left.grads[u][i] += right.grads[u][i];
    }
  }

  std::pair<double, double> one_step(int64_t step) {
    int64_t valid = 0;
    for (int64_t g = 0; g < case_.micro_batches; ++g) {
      for (const int32_t t : Batch(case_.model.vocab_size, step, g).targets) valid += t >= 0;
    }
    const T scale = static_cast<T>(1.0 / static_cast<double>(valid));
    Sum total = sum(step, 0, 0, case_.lanes, scale);
    for (int64_t r = 1; r < case_.micro_batches / case_.lanes; ++r)
      add(total, sum(step, r, 0, case_.lanes, scale));

    const ModelSpec& spec = model_->spec();
    std::vector<double> squares(spec.params.size());
    double* out = squares.data();
    for (size_t u = 0; u < spec.units.size(); ++u) {
      squares_of_unit<T>(exec_, spec, static_cast<int>(u), total.grads[u].data(), out);
      out += spec.units[u].params.size();
    }
    const Clipping clipping = clip(squares, 1.0, kMaxNorm);
    for (size_t u = 0; u < spec.units.size(); ++u) {
      const int unit = static_cast<int>(u);
      update_unit<T>(exec_, decay_runs(spec, unit, DecayPolicy::matrices),
                     adamw_step(adamw_settings(), rate(step), step - 1, clipping.factor),
                     total.grads[u].data(), model_->unit(unit), moments_.first(unit),
                     moments_.second(unit));
    }
    return {total.loss / static_cast<double>(valid), clipping.norm};
  }

  Case case_;
  std::unique_ptr<Model<T>> model_;
  Moments<T> moments_;
  ThreadTeam team_;
  Arena scratch_;
  ops::Exec exec_;
  StraightPass<T> pass_;
};

}  // namespace muster::step_rig
