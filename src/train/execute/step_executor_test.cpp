#include "train/execute/step_executor.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <map>
#include <set>

#include "trace/trace_data.h"
#include "train/execute/step_rig.h"

namespace muster {
namespace {

using namespace step_rig;  // NOLINT: the vocabulary of these tests

// ---- one order, whatever the layout

template <class T>
void expect_reference(const Case& base) {
  const Outcome want = Reference<T>(base).train();
  const struct {
    const char* name;
    std::function<void(Case&)> change;
  } variants[] = {
      {"as it is", [](Case&) {}},
      {"two ranks", [](Case& c) { c.world = 2; }},
      {"three ranks, uneven lanes", [](Case& c) { c.world = 3; }},
      {"four ranks", [](Case& c) { c.world = 4; }},
      {"two threads", [](Case& c) { c.threads = 2; }},
      {"two ranks of two threads, joined gradients",
       [](Case& c) { c.world = c.threads = 2, c.bucket = 1 << 20; }},
      {"scalar kernels", [](Case& c) { c.isa = ops::Isa::scalar; }},
  };
  for (const auto& v : variants) {
    SCOPED_TRACE(v.name);
    Case c = base;
    v.change(c);
    const Outcome got = execute<T>(c);
    EXPECT_EQ(got.losses, want.losses);
    EXPECT_EQ(got.norms, want.norms);
    EXPECT_TRUE(got.state == want.state);
  }
}

TEST(StepExecutor, EqualsTheStraightLineInEveryLayoutLlama) {
  expect_reference<float>(Case{});
}
TEST(StepExecutor, EqualsTheStraightLineInEveryLayoutTiedGpt2) {
  Case c;
  c.model = tiny(Family::gpt2);
  expect_reference<float>(c);
}
TEST(StepExecutor, EqualsTheStraightLineInDoublePrecision) {
  Case c;
  c.steps = 2;
  expect_reference<double>(c);
}
TEST(StepExecutor, EqualsTheStraightLineWithRoundsAndOddLanes) {
  Case c;
  c.micro_batches = 15;
  c.lanes = 5;
  c.steps = 2;
  expect_reference<float>(c);
}

TEST(StepExecutor, RecomputeChangesNoBit) {
  const Outcome want = execute<float>(Case{});
  const ModelSpec spec = make_model_spec(tiny(Family::llama), Real::f32).value();
  StepLayout layout;
  layout.work = Workload::causal(1, kTokens);
  const int64_t full = plan_step(spec, layout, {.least_bucket = Bytes{0}}).value().memory.total();
  int64_t budget = full;
  int variants = 0;
  for (;;) {
    Case c;
    c.budget = budget;
    const auto plan =
        plan_step(spec, layout, {.memory_budget = Bytes{budget}, .least_bucket = Bytes{0}});
    if (!plan.ok()) break;
    SCOPED_TRACE(budget);
    int64_t repeated = 0;
    EXPECT_TRUE(execute<float>(c, &repeated) == want);
    EXPECT_EQ(repeated, plan->program.repeated_flops());
    budget = plan->memory.total() - 1;
    ++variants;
  }
  EXPECT_GE(variants, 3);  // all kept, cheap dropped, costly dropped
}

TEST(StepExecutor, GradientsAreThoseOfTheWholeModelPass) {
  Case c;
  c.micro_batches = c.lanes = 1;
  c.poison = false;
  on_ranks(1, group_options(), [&](Communicator& group) {
    auto worker = Worker<float>::make(c, group);
    auto model = Model<float>::make(c.model).value();
    model->initialize(kSeed, worker->team);
    const Batch batch(c.model.vocab_size, 1, 0);
    const auto report = worker->run(1, worker->batches(1));
    ASSERT_TRUE(report.ok());

    std::vector<std::vector<float>> grads;
    std::vector<float*> views;
    for (const UnitSpec& u : model->spec().units)
      grads.emplace_back(static_cast<size_t>(u.elements), 0.0f);
    for (auto& g : grads) views.push_back(g.data());
    std::vector<float> losses(kTokens);
    StraightPass<float> pass(*model, kTokens);
    pass.gradients(worker->exec, batch.view(),
                   static_cast<float>(loss_factor(count_valid(batch.view()))), 0.0f, views,
                   losses.data());
    for (size_t u = 0; u < grads.size(); ++u) {
      EXPECT_EQ(std::memcmp(grads[u].data(), worker->executor->gradient(static_cast<int>(u)),
                            grads[u].size() * sizeof(float)),
                0)
          << model->spec().units[u].name;
    }
    EXPECT_EQ(report->loss * static_cast<double>(report->valid_tokens),
              sum_token_losses<float>(losses));
  });
}

TEST(StepExecutor, TrainingOnOneBatchLowersItsLoss) {
  Case c;
  c.micro_batches = c.lanes = 2;
  on_ranks(1, group_options(), [&](Communicator& group) {
    auto worker = Worker<float>::make(c, group);
    const std::vector<Batch> batches = worker->batches(1);
    double first = 0, last = 0;
    for (int64_t step = 1; step <= 40; ++step) {
      std::vector<BatchView> views;
      for (const Batch& b : batches) views.push_back(b.view());
      const auto report = worker->executor->run({step, views, 0.01, step - 1});
      ASSERT_TRUE(report.ok());
      (step == 1 ? first : last) = report->loss;
    }
    EXPECT_NEAR(first, std::log(static_cast<double>(c.model.vocab_size)), 0.3);
    EXPECT_LT(last, first / 2);
  });
}

// ---- what waits for the state may go on until the update

TEST(StepExecutor, TheStateIsAskedForOnceAStepAfterTheLastGradient) {
  for (const int world : {1, 2}) {
    SCOPED_TRACE(world);
    Case c;
    c.world = world;
    const Outcome want = execute<float>(c);
    on_ranks(world, group_options(), [&](Communicator& group) {
      Worker<float>* rank = nullptr;
      std::vector<std::vector<std::string>> seen;  // the state when it was asked for
      auto worker =
          Worker<float>::make(c, group, nullptr, nullptr, [&] { seen.push_back(rank->state()); });
      rank = worker.get();
      for (int64_t step = 1; step <= c.steps; ++step) {
        const auto before = worker->state();
        const auto report = worker->run(step, worker->batches(step));
        ASSERT_TRUE(report.ok());
        ASSERT_EQ(seen.size(), static_cast<size_t>(step));
        EXPECT_TRUE(seen.back() == before) << "nothing was changed before";
        EXPECT_FALSE(worker->state() == before);
        EXPECT_EQ(report->total, report->compute + report->exposed_comm + report->before_update);
        EXPECT_EQ(report->loss, want.losses[static_cast<size_t>(step - 1)]);
      }
      EXPECT_TRUE(worker->state() == want.state);
      // A step that changes nothing asks for nothing.
      std::vector<Batch> batches = worker->batches(1);
      for (Batch& b : batches) std::fill(b.targets.begin(), b.targets.end(), -1);
      ASSERT_TRUE(worker->run(c.steps + 1, batches).ok());
      EXPECT_EQ(seen.size(), static_cast<size_t>(c.steps));
    });
  }
}

// ---- steps that do not count

// Runs one step on two ranks after `spoil`; every rank must report `want` and keep its state.
void expect_skipped(const std::function<void(Worker<float>&)>& spoil,
                    const std::function<void(std::vector<Batch>&)>& spoil_batches,
                    StepOutcome want) {
  Case c;
  on_ranks(2, group_options(), [&](Communicator& group) {
    auto worker = Worker<float>::make(c, group);
    spoil(*worker);
    std::vector<Batch> batches = worker->batches(1);
    spoil_batches(batches);
    const auto before = worker->state();
    const auto report = worker->run(1, batches);
    ASSERT_TRUE(report.ok()) << report.error().to_string();
    EXPECT_EQ(report->outcome, want) << step_outcome_name(report->outcome);
    EXPECT_TRUE(worker->state() == before);
  });
}

TEST(StepExecutor, ALossThatIsNotANumberOnOneRankSkipsTheStepOnAll) {
  Case c;
  on_ranks(2, group_options(), [&](Communicator& group) {
    auto worker = Worker<float>::make(c, group);
    // An embedding row that only micro-batch 5, of rank 1, looks up.
    const Param& table = *worker->model->spec().find("model.embed_tokens.weight");
    std::vector<Batch> batches = worker->batches(1);
    const std::vector<int64_t> mine = worker->executor->program().layout.my_micro_batches();
    for (size_t i = 0; i < batches.size(); ++i) {
      for (int32_t& id : batches[i].ids) id = id == 0 ? 1 : id;
      if (mine[i] == 5) batches[i].ids[3] = 0;
    }
    worker->model->view(table)[0] = std::numeric_limits<float>::quiet_NaN();
    const auto before = worker->state();
    const auto report = worker->run(1, batches);
    ASSERT_TRUE(report.ok());
    EXPECT_EQ(report->outcome, StepOutcome::loss_not_finite);
    EXPECT_TRUE(worker->state() == before);
    // The rank that computed it can name the micro-batch.
    for (size_t i = 0; i < mine.size(); ++i)
      EXPECT_EQ(std::isfinite(report->micro_batch_losses[i]), mine[i] != 5) << mine[i];
  });
}

TEST(StepExecutor, AGradientThatOverflowsSkipsTheStep) {
  expect_skipped(
      [](Worker<float>& w) {
        // Zero embeddings give zero logits and a finite loss, while the head's huge weights and
        // the norm's 1 / sqrt(eps) push the gradient past the largest float.
        const ModelSpec& spec = w.model->spec();
        for (float& x : w.model->view(*spec.find("model.embed_tokens.weight"))) x = 0;
        for (float& x : w.model->view(*spec.find("lm_head.weight"))) x = 1e31f;
        w.model->view(*spec.find("lm_head.weight"))[0] = -1e31f;
        for (float& x : w.model->view(*spec.find("model.norm.weight"))) x = 1e9f;
      },
      [](std::vector<Batch>& batches) {
        for (Batch& b : batches) {
          for (int32_t& t : b.targets) t = 0;
        }
      },
      StepOutcome::gradient_not_finite);
}

TEST(StepExecutor, AStepWithoutAValidTargetChangesNothing) {
  expect_skipped([](Worker<float>&) {},
                 [](std::vector<Batch>& batches) {
                   for (Batch& b : batches) std::fill(b.targets.begin(), b.targets.end(), -1);
                 },
                 StepOutcome::no_valid_tokens);
}

TEST(StepExecutor, ARankWithoutValidTargetsStillTakesPart) {
  Case c;
  std::vector<double> losses(2);
  on_ranks(2, group_options(), [&](Communicator& group) {
    auto worker = Worker<float>::make(c, group);
    std::vector<Batch> batches = worker->batches(1);
    if (group.rank().value == 1) {
      for (Batch& b : batches) std::fill(b.targets.begin(), b.targets.end(), -1);
    }
    const auto report = worker->run(1, batches);
    ASSERT_TRUE(report.ok());
    EXPECT_EQ(report->outcome, StepOutcome::updated);
    losses[static_cast<size_t>(group.rank().value)] = report->loss;
  });
  EXPECT_EQ(losses[0], losses[1]);
  EXPECT_NEAR(losses[0], std::log(70.0), 0.3);  // the mean over valid tokens alone
}

// ---- trouble

TEST(StepExecutor, AMissingRankEndsTheStepWithItsNameAndLeavesTheStateAlone) {
  GroupOptions options = group_options();
  options.timeout = std::chrono::milliseconds{100};
  on_ranks(2, options, [&](Communicator& group) {
    Case c;
    c.world = 2;
    auto worker = Worker<float>::make(c, group);
    if (group.rank().value == 1) return;  // joins, then never comes
    const auto before = worker->state();
    const auto report = worker->run(1, worker->batches(1));
    ASSERT_FALSE(report.ok());
    EXPECT_TRUE(report.error().code() == Code::timeout ||
                report.error().code() == Code::peer_lost ||
                report.error().code() == Code::cancelled)
        << report.error().to_string();
    EXPECT_NE(report.error().to_string().find("step 1"), std::string::npos)
        << report.error().to_string();
    EXPECT_TRUE(worker->state() == before);
    // The group is broken: the next step says so at once.
    EXPECT_FALSE(worker->run(2, worker->batches(2)).ok());
  });
}

TEST(StepExecutor, AnAbortEndsTheStepOnAllRanks) {
  on_ranks(2, group_options(), [&](Communicator& group) {
    Case c;
    auto worker = Worker<float>::make(c, group);
    if (group.rank().value == 1) {
      group.abort("stopped by the test");
      return;
    }
    const auto report = worker->run(1, worker->batches(1));
    ASSERT_FALSE(report.ok());
    EXPECT_EQ(report.error().code(), Code::cancelled) << report.error().to_string();
  });
}

// ---- records

TEST(StepExecutor, EveryOperationLeavesASpanAndCollectivesCarryEqualNumbers) {
  std::vector<std::map<std::string, std::vector<uint64_t>>> comm(2);  // name -> sequence numbers
  on_ranks(2, group_options(), [&](Communicator& group) {
    TraceRegionOptions region_options;
    region_options.rank = group.rank().value;
    region_options.slots = 1 << 12;
    Recorder recorder(TraceRegion::create(region_options).value());
    recorder.progress().agent.tier_mask.store(0xF);
    TraceWriter writer = recorder.attach("step");
    Case c;
    auto worker = Worker<float>::make(c, group, &recorder, &writer);
    for (int64_t step = 1; step <= 2; ++step)
      ASSERT_TRUE(worker->run(step, worker->batches(step)).ok());
    const TraceData data = read_region(recorder.region());
    std::map<std::string, int> compute;
    for (const TraceEvent& e : data.events) {
      const std::string name(data.name_of(e));
      EXPECT_GE(e.a, 1u);
      EXPECT_LE(e.a, 2u);
      if (e.kind == RecordKind::complete) ++compute[name];
      if (e.kind == RecordKind::begin) {
        EXPECT_TRUE(name.starts_with("comm.")) << name;
        comm[static_cast<size_t>(group.rank().value)][name].push_back(e.b);
      }
    }
    EXPECT_EQ(compute["compute.forward.layers.1.mlp"], 2 * 4);  // steps x local micro-batches
    EXPECT_EQ(compute["compute.backward_weight.embedding"], 2 * 4);
    EXPECT_EQ(compute["compute.clip"], 2);
    worker.reset();  // before its recorder
  });
  EXPECT_EQ(comm[0], comm[1]);
  std::set<uint64_t> numbers;
  for (const auto& [name, list] : comm[0]) numbers.insert(list.begin(), list.end());
  EXPECT_FALSE(numbers.contains(0));
  EXPECT_EQ(comm[0]["comm.count"].size(), 2u);
}

TEST(LossFactor, IsOneOverTheValidTokens) {
  EXPECT_EQ(loss_factor(8), 0.125);
  EXPECT_EQ(loss_factor(0), 1.0);
  const Batch batch(70, 1, 0);
  EXPECT_EQ(count_valid(batch.view()), std::count_if(batch.targets.begin(), batch.targets.end(),
                                                     [](int32_t t) { return t >= 0; }));
}

}  // namespace
}  // namespace muster
