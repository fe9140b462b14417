#include "train/loop/worker.h"

#include <fmt/format.h>
#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>
#include <thread>
#include <utility>

#include "comm/open_group.h"
#include "trace/vocabulary.h"
#include "train/execute/step_executor.h"
#include "train/loop/samples.h"
#include "train/loop/state_keeper.h"
#include "train/loop/step_log.h"
#include "train/loop/validation.h"
#include "train/ops/gemm_chooser.h"
#include "train/optim/schedule.h"
#include "train/step/plan_step.h"

namespace muster {
namespace {

std::atomic<bool> stop_requested{false};

// A restart computes the same again, so it cannot help.
bool is_lasting(const Error& error) {
  return error.code() == Code::invalid_argument || error.code() == Code::unsupported ||
         error.code() == Code::not_found;
}

Schedule schedule_of(const TrainConfig& config) {
  Schedule schedule;
  schedule.kind = config.optimizer.schedule == OptimizerSettings::Schedule::cosine
                      ? ScheduleKind::cosine
                      : ScheduleKind::wsd;
  schedule.lr = config.optimizer.lr;
  schedule.min_lr = config.optimizer.min_lr;
  schedule.steps = config.train.steps;
  schedule.warmup_steps = config.optimizer.warmup_steps;
  schedule.decay_steps = config.optimizer.decay_steps;
  return schedule;
}

AdamW adamw_of(const TrainConfig& config) {
  AdamW adamw;
  adamw.beta1 = config.optimizer.beta1;
  adamw.beta2 = config.optimizer.beta2;
  adamw.eps = config.optimizer.eps;
  adamw.weight_decay = config.optimizer.weight_decay;
  return adamw;
}

BatchView view_of(const MicroBatch& batch) {
  BatchView view;
  view.tokens = static_cast<int64_t>(batch.rows.tokens.size());
  view.ids = batch.rows.tokens.data();
  view.targets = batch.rows.targets.data();
  view.positions = batch.rows.positions.data();
  view.segments = batch.rows.segments;
  return view;
}

// Tokens that count and the pairs they see; padding is left out.
Workload workload_of(const PackedRows& rows) {
  Workload work;
  for (size_t s = 0; s + 1 < rows.segments.size(); ++s) {
    const int64_t begin = rows.segments[s], length = rows.segments[s + 1] - begin;
    if (rows.targets[static_cast<size_t>(begin)] < 0) continue;
    work.tokens += length;
    work.pairs += length * (length + 1) / 2;
  }
  return work;
}

double seconds(Nanos duration) {
  return static_cast<double>(duration.count()) * 1e-9;
}

// Everything that lives through the steps of one rank.

class WorkerRun {
 public:
  WorkerRun(const Warm& warm, WorkerSeams& seams, Recorder& recorder,
            const std::vector<Injection>& injections)
      : warm_(warm),
        config_(warm.config),
        seams_(seams),
        recorder_(recorder),
        injections_(injections),
        progress_(recorder.progress(), seams.clock),
        writer_(recorder.attach("step")),
        team_(static_cast<int>(warm.config.train.threads)),
        chooser_(seams.clock) {}

  Result<int> run();

 private:
  Status join();
  Status build();
  void wait_for_save();
  Result<std::optional<TextLoss>> validate_now();
  Status choose_kernels();
  Status record_choices();
  Status restore();
  Status train();
  Status step(int64_t number);
  Status finish();
  void inject(int64_t number);
  Status check_bad_steps(const StepReport& report, const StepBatch& batch, int64_t number);
  ScalarState scalars() const;
  bool coordinator() const { return group_->rank().value == 0; }

  const Warm& warm_;
  const TrainConfig& config_;
  WorkerSeams& seams_;
  Recorder& recorder_;
  const std::vector<Injection>& injections_;
  ProgressWriter progress_;
  TraceWriter writer_;
  ThreadTeam team_;
  std::optional<Arena> scratch_;
  std::optional<ops::Exec> exec_;
  ops::GemmChooser chooser_;
  size_t choices_recorded_ = 0;
  std::unique_ptr<Communicator> group_;
  std::unique_ptr<Model<float>> model_;
  std::optional<Moments<float>> moments_;
  std::unique_ptr<StepExecutor<float>> executor_;
  std::optional<Validation> validation_;
  std::optional<StraightPass<float>> pass_;
  std::unique_ptr<StateKeeper> keeper_;
  std::unique_ptr<Loader> loader_;
  std::optional<StepLog> log_;

  int32_t attempt_ = 0;
  int64_t saved_step_ = 0;  // of the newest save begun, or of the state restored
  int64_t steps_done_ = 0, updates_done_ = 0, bad_steps_ = 0, tokens_done_ = 0;
  std::vector<std::string> bad_batches_;
  LoaderCursor cursor_;
  double last_loss_ = NAN;
  bool stopping_ = false, last_state_lost_ = false;
  int save_attempts_ = 0;
};

Status WorkerRun::join() {
  progress_.enter(Phase::init_rendezvous, std::chrono::minutes{2});
  const OpenSpan span(writer_, recorder_.intern(trace_name::kInitRendezvous));
  GroupOptions options;
  options.progress = Progress::thread;
  options.on_wait = [this](bool waiting) { progress_.wait_for_others(waiting); };
  if (config_.train.comm_timeout.count() > 0) options.timeout = config_.train.comm_timeout;
  MUSTER_TRY(group_, open_group(seams_.environment, seams_.transport, seams_.random, options)
                         .context("join the other ranks"));
  const auto count = seams_.environment.find("TORCHELASTIC_RESTART_COUNT");
  if (count != seams_.environment.end()) attempt_ = std::atoi(count->second.c_str());
  return {};
}

Status WorkerRun::build() {
  progress_.enter(Phase::init_compile, std::chrono::minutes{5});
  const OpenSpan span(writer_, recorder_.intern(trace_name::kInitCompile));
  MUSTER_TRY(model_, Model<float>::make(config_.model));
  MUSTER_TRY(moments_, Moments<float>::make(model_->spec()));

  MUSTER_TRY(PlannedStep planned, plan_step(config_, group_->world(), group_->rank()));
  const int64_t tokens = config_.tokens_per_micro_batch();
  const int64_t longest = std::max(tokens, config_.model.context);
  const int64_t scratch = StepExecutor<float>::scratch_bytes(planned, team_.size()) +
                          StraightPass<float>::arena_bytes(model_->spec(), longest, team_.size());
  MUSTER_TRY(scratch_, Arena::make(static_cast<size_t>(scratch), true));
  const bool strict = config_.train.mode == TrainSettings::Mode::strict;
  exec_.emplace(
      ops::Exec{team_, *scratch_, warm_.isa, strict ? ops::Mode::strict : ops::Mode::fast});
  if (!strict) MUSTER_TRY(choose_kernels());

  StepExecutor<float>::Options execution;
  execution.adamw = adamw_of(config_);
  execution.max_gradient_norm = config_.optimizer.clip;
  execution.before_update = [this] { wait_for_save(); };
  MUSTER_TRY(executor_, StepExecutor<float>::make(std::move(planned),
                                                  {*model_, *moments_, *exec_, *group_,
                                                   seams_.clock, &recorder_, &writer_},
                                                  execution));
  MUSTER_TRY(keeper_, StateKeeper::make({seams_.clock, seams_.random, seams_.files, seams_.log,
                                         *group_, chooser_, seams_.vendor_name},
                                        warm_, *model_, *moments_));
  pass_.emplace(*model_, std::max(tokens, config_.data.sequence_length));
  return {};
}

// Forward and backward only read the state, so a save goes on beside them.
void WorkerRun::wait_for_save() {
  if (!keeper_->in_flight()) return;
  const Span span(writer_, recorder_.intern(trace_name::kCkptExposed),
                  static_cast<uint64_t>(steps_done_ + 1));
  keeper_->before_update();
}

// Read at the first evaluation, not at the start: a restart should compute again soon.
Result<std::optional<TextLoss>> WorkerRun::validate_now() {
  progress_.enter(Phase::eval, std::chrono::minutes{30});
  const OpenSpan span(writer_, recorder_.intern(trace_name::kEval),
                      static_cast<uint64_t>(steps_done_));
  if (!validation_) {
    MUSTER_TRY(validation_, Validation::make(warm_, config_.eval.sequences));
  }
  if (validation_->empty()) return std::optional<TextLoss>();
  MUSTER_TRY(const TextLoss result, validation_->run(*exec_, *pass_, *group_));
  return std::optional(result);
}

// Fast mode: a run that goes on starts from its own choices, so that it repeats its bits. These are
// for restarts before the first checkpoint; a checkpoint brings its own.
Status WorkerRun::choose_kernels() {
  exec_->vendor = seams_.vendor;
  exec_->chooser = &chooser_;
  const std::string path = warm_.run.gemm_choices(group_->rank().value);
  const auto recorded = read_file(seams_.files, path);
  if (recorded.ok()) MUSTER_TRY(chooser_.restore(*recorded).context(path));
  choices_recorded_ = chooser_.size();
  return {};
}

// Shapes are met in the first steps; after that nothing is written.
Status WorkerRun::record_choices() {
  if (chooser_.size() == choices_recorded_) return {};
  choices_recorded_ = chooser_.size();
  return write_file_durably(seams_.files, warm_.run.gemm_choices(group_->rank().value),
                            chooser_.to_text());
}

Status WorkerRun::restore() {
  progress_.enter(Phase::restore, std::chrono::minutes{10});
  const OpenSpan span(writer_, recorder_.intern(trace_name::kRestore));
  cursor_ =
      Loader::start_cursor(warm_.corpus, warm_.encoding, static_cast<uint64_t>(config_.train.seed));
  MUSTER_TRY(const auto found, keeper_->restore());
  if (found) {
    steps_done_ = found->schedule_step;
    saved_step_ = steps_done_;
    updates_done_ = found->step;
    MUSTER_TRY(cursor_, LoaderCursor::from_text(found->loader_cursor));
    for (const Scalar& scalar : found->others) {
      if (scalar.name == "tokens") tokens_done_ = static_cast<int64_t>(scalar.bits);
    }
  } else {
    const auto log = seams_.files.stat(warm_.run.steps());
    if (coordinator() && log.ok() && log->size > 0)
      seams_.log.warning("there is no valid checkpoint, so the run starts from its first step");
    model_->initialize(static_cast<uint64_t>(config_.train.seed), team_);
  }
  const StepLayout& layout = executor_->program().layout;
  MUSTER_TRY(loader_,
             Loader::start(warm_.corpus, warm_.make_encoder(config_.data.fim_rate), warm_.encoding,
                           warm_.shape, cursor_, layout.my_micro_batches(), config_.data.prefetch));
  if (coordinator()) {
    MUSTER_TRY(log_, StepLog::open(seams_.files, warm_.run.steps()));
    seams_.log.info(found ? "resumed" : "initialised",
                    {{"step", steps_done_}, {"attempt", attempt_}});
  }
  return {};
}

ScalarState WorkerRun::scalars() const {
  ScalarState state;
  state.step = updates_done_;
  state.schedule_step = steps_done_;
  state.rng_seed = static_cast<uint64_t>(config_.train.seed);
  state.rng_step = steps_done_;
  state.loader_cursor = cursor_.to_text();
  state.others.push_back({"tokens", "u64", static_cast<uint64_t>(tokens_done_)});
  return state;
}

// Each injection fires once in a job, whatever restarts it: its mark is made before it acts.
void WorkerRun::inject(int64_t number) {
  for (size_t i = 0; i < injections_.size(); ++i) {
    const Injection& injection = injections_[i];
    if (injection.step != number || injection.rank != group_->rank()) continue;
    const auto mark = seams_.files.open(warm_.run.injection_mark(i), {OpenMode::write_new, false});
    if (!mark.ok()) continue;
    static_cast<void>(seams_.files.close(*mark).ok());
    seams_.log.info("injecting a fault", {{"fault", injection_text(injection)}});
    if (injection.kind == Injection::Kind::kill) ::kill(::getpid(), SIGKILL);
    if (injection.kind == Injection::Kind::hang) {
      for (;;) ::pause();
    }
    if (injection.kind == Injection::Kind::nan) {
      keeper_->before_update();
      model_->unit(0)[0] = NAN;
    }
  }
}

Status WorkerRun::check_bad_steps(const StepReport& report, const StepBatch& batch,
                                  int64_t number) {
  if (report.outcome == StepOutcome::updated) {
    bad_steps_ = 0;
    bad_batches_.clear();
    return {};
  }
  ++bad_steps_;
  std::string mine;
  for (size_t i = 0; i < report.micro_batch_losses.size() && i < batch.micro_batches.size(); ++i) {
    if (!std::isfinite(report.micro_batch_losses[i])) {
      mine += fmt::format(" {} (micro-batch {})", batch.micro_batches[i].first_sequence,
                          batch.micro_batches[i].index);
    }
  }
  MUSTER_TRY(const auto all, group_->gather_bytes(mine));
  std::string named;
  for (const std::string& text : all) named += text;
  bad_batches_.push_back(fmt::format("step {}: {}{}", number, step_outcome_name(report.outcome),
                                     named.empty() ? std::string() : ", batches" + named));
  if (coordinator())
    seams_.log.warning("a step was skipped",
                       {{"what", bad_batches_.back()}, {"in_a_row", bad_steps_}});
  if (bad_steps_ < config_.train.max_bad_steps) return {};
  return Error(Code::invalid_argument,
               fmt::format("{} steps in a row were not finite, so the run ends: {}. Look at these "
                           "batches, lower optimizer.lr, or "
                           "raise train.max_bad_steps",
                           bad_steps_, fmt::join(bad_batches_, "; ")));
}

Status WorkerRun::step(int64_t number) {
  const Nanos begin = seams_.clock.now();
  const uint64_t begin_ticks = writer_.now();
  writer_.step(recorder_.intern(trace_name::kStep), number);
  progress_.begin_step(number);
  inject(number);

  Nanos data_wait{0};
  StepBatch batch;
  {
    const Span span(writer_, recorder_.intern(trace_name::kDataWait),
                    static_cast<uint64_t>(number));
    MUSTER_TRY(batch, loader_->next());
    data_wait = seams_.clock.now() - begin;
  }
  std::vector<BatchView> views;
  int64_t flops = 0;
  for (const MicroBatch& micro_batch : batch.micro_batches) {
    views.push_back(view_of(micro_batch));
    flops += model_->spec().training_flops(workload_of(micro_batch.rows));
  }
  StepRequest request;
  request.step = number;
  request.micro_batches = views;
  request.lr = learning_rate(schedule_of(config_), number - 1);
  request.updates_done = updates_done_;
  MUSTER_TRY(const StepReport report, executor_->run(request));
  Nanos checkpoint_wait = report.before_update;
  MUSTER_TRY(record_choices());

  steps_done_ = number;
  if (report.outcome == StepOutcome::updated) ++updates_done_;
  tokens_done_ += report.valid_tokens;
  last_loss_ = report.loss;
  const std::string first =
      batch.micro_batches.empty() ? std::string() : batch.micro_batches[0].first_sequence;
  cursor_ = batch.next;
  const Status bad = check_bad_steps(report, batch, number);

  // What all ranks must agree on before the next step, in one sum: FLOPs of the step, who was asked
  // to stop, whose save still runs, whose save failed.
  const bool wants_stop = stop_requested.load();
  const bool save_open = keeper_->in_flight();
  std::vector<int64_t> agreed = {flops, wants_stop ? 1 : 0, save_open && !keeper_->ready() ? 1 : 0,
                                 keeper_->wants_retry() ? 1 : 0};
  MUSTER_TRY(group_->all_reduce(std::span(agreed), ReduceOp::sum).wait());
  stopping_ = agreed[1] > 0 || (config_.train.stop_after > 0 && number >= config_.train.stop_after);
  if (save_open && agreed[2] == 0) MUSTER_TRY(keeper_->finish());

  const bool due = config_.checkpoint.every > 0 && number % config_.checkpoint.every == 0;
  const bool last = number == config_.train.steps || stopping_;
  const bool retry = agreed[3] > 0 && save_attempts_ < 3;
  // A skipped step changed nothing that is worth keeping, and what made it fail may be in the
  // state.
  const bool sound = bad_steps_ == 0;
  if ((due || last || retry) && sound && !keeper_->in_flight()) {
    save_attempts_ = retry ? save_attempts_ + 1 : 0;
    const Nanos from = seams_.clock.now();
    const Span span(writer_, recorder_.intern(trace_name::kCkptExposed),
                    static_cast<uint64_t>(number));
    MUSTER_TRY(keeper_->begin(scalars()));
    saved_step_ = number;
    checkpoint_wait += seams_.clock.now() - from;
  }
  progress_.end_step(report.loss, static_cast<uint64_t>(tokens_done_));
  writer_.complete(recorder_.intern(trace_name::kStep), begin_ticks, writer_.now(),
                   static_cast<uint64_t>(number));
  if (coordinator()) {
    StepRecord record;
    record.step = number;
    record.attempt = attempt_;
    record.loss = report.loss;
    record.gradient_norm = report.gradient_norm;
    record.learning_rate = request.lr;
    record.tokens = report.valid_tokens;
    record.seconds = seconds(seams_.clock.now() - begin);
    record.exposed_comm_seconds = seconds(report.exposed_comm);
    record.data_wait_seconds = seconds(data_wait);
    record.checkpoint_wait_seconds = seconds(checkpoint_wait);
    record.model_flops = static_cast<double>(agreed[0]);
    record.peak_flops_per_second = seams_.peak_flops_per_second * team_.size() * group_->world();
    record.skipped = report.outcome != StepOutcome::updated;
    record.batches = first;
    // A full disk must not end the run: the line waits in memory for room.
    const bool waiting = log_->waiting();
    const Status appended = log_->append(record);
    if (!appended.ok() && !waiting)
      seams_.log.warning("the step log cannot be written; its lines wait in memory",
                         {{"reason", appended.error().to_string()}});
  }
  // The step that ends the run is in the log too, and a save that is on its way arrives.
  if (bad_steps_ >= config_.train.max_bad_steps && !bad.ok()) MUSTER_TRY(keeper_->drain());
  return bad;
}

Status WorkerRun::train() {
  while (steps_done_ < config_.train.steps && !stopping_) {
    MUSTER_TRY(step(steps_done_ + 1));
    const bool due = config_.eval.every > 0 && steps_done_ % config_.eval.every == 0 &&
                     steps_done_ < config_.train.steps;
    if (!due) continue;
    MUSTER_TRY(const auto result, validate_now());
    if (result && coordinator()) {
      seams_.log.info("validation", {{"step", steps_done_},
                                     {"loss", result->loss()},
                                     {"bits_per_byte", result->bits_per_byte().value_or(0)}});
    }
  }
  return {};
}

Status WorkerRun::finish() {
  TextLoss validation;
  const bool complete = steps_done_ >= config_.train.steps;
  if (complete) {
    MUSTER_TRY(const auto result, validate_now());
    if (result) validation = *result;
  }
  progress_.enter(Phase::ckpt_block, std::chrono::minutes{30});
  {
    const OpenSpan span(writer_, recorder_.intern(trace_name::kCkptBlock),
                        static_cast<uint64_t>(steps_done_));
    MUSTER_TRY(keeper_->drain());
    // The last state may not be saved yet (an earlier save was still on its way), or is worth
    // another try.
    std::vector<int64_t> failed = {keeper_->wants_retry() ? 1 : 0};
    MUSTER_TRY(group_->all_reduce(std::span(failed), ReduceOp::sum).wait());
    if (failed[0] > 0 || saved_step_ != steps_done_) {
      MUSTER_TRY(keeper_->begin(scalars()));
      MUSTER_TRY(keeper_->drain());
      failed[0] = keeper_->wants_retry() ? 1 : 0;
      MUSTER_TRY(group_->all_reduce(std::span(failed), ReduceOp::sum).wait());
      last_state_lost_ = failed[0] > 0;
    }
  }
  const Hash128 digest = keeper_->digest(scalars());
  MUSTER_TRY(const std::vector<std::string> digests, group_->gather_bytes(digest.hex()));
  for (size_t rank = 0; rank < digests.size(); ++rank) {
    if (digests[rank] == digests[0]) continue;
    return Error(
        Code::corrupt,
        fmt::format(
            "the state of rank {} differs from rank 0's ({} against {}): a silent fault of memory "
            "or processor; test this machine",
            rank, digests[rank], digests[0]));
  }
  if (coordinator()) {
    const std::optional<double> bits_per_byte = validation.bits_per_byte();
    nlohmann::ordered_json result;
    result["steps"] = steps_done_;
    result["complete"] = complete;
    result["tokens"] = tokens_done_;
    result["loss"] = std::isfinite(last_loss_) ? nlohmann::ordered_json(last_loss_)
                                               : nlohmann::ordered_json(nullptr);
    result["validation_loss"] = validation.tokens > 0 ? nlohmann::ordered_json(validation.loss())
                                                      : nlohmann::ordered_json(nullptr);
    result["validation_bits_per_byte"] =
        bits_per_byte ? nlohmann::ordered_json(*bits_per_byte) : nlohmann::ordered_json(nullptr);
    result["validation_tokens"] = validation.tokens;
    result["checkpoint"] = keeper_->newest();
    result["digest"] = digest.hex();
    nlohmann::ordered_json samples = nlohmann::ordered_json::array();
    if (complete && config_.eval.sample_tokens > 0) {
      progress_.enter(Phase::eval, std::chrono::minutes{30});
      const OpenSpan span(writer_, recorder_.intern(trace_name::kEval),
                          static_cast<uint64_t>(steps_done_));
      auto made = make_samples(warm_, *model_, *exec_, config_.eval.sample_tokens,
                               static_cast<uint64_t>(config_.train.seed));
      // A model that writes nothing sensible is no reason to lose the run.
      if (!made.ok())
        seams_.log.warning("no samples", {{"error", made.error().to_string()}});
      else {
        for (const Sample& sample : *made) {
          samples.push_back({{"title", sample.title},
                             {"before", sample.before},
                             {"text", sample.text},
                             {"after", sample.after}});
        }
      }
    }
    result["samples"] = std::move(samples);
    result["isa"] = ops::isa_name(warm_.isa);
    result["threads"] = team_.size();
    result["world"] = group_->world();
    MUSTER_TRY(write_file_durably(seams_.files, warm_.run.result(), result.dump() + "\n"));
    MUSTER_TRY(log_->close());
  }
  MUSTER_TRY(group_->barrier().wait());
  if (last_state_lost_) {
    seams_.log.error("the last state could not be saved",
                     {{"step", steps_done_},
                      {"reason", keeper_->failure()},
                      {"remedy",
                       "make room or mend the disk; --resume repeats the steps since the "
                       "newest checkpoint"}});
  }
  progress_.enter(Phase::finished, std::chrono::minutes{1});
  return {};
}

Result<int> WorkerRun::run() {
  MUSTER_TRY(join());
  MUSTER_TRY(build());
  MUSTER_TRY(restore());
  MUSTER_TRY(train());
  MUSTER_TRY(finish());
  return last_state_lost_ ? kExitNoRestart : 0;
}

}  // namespace

void request_worker_stop() {
  stop_requested.store(true);
}

int run_worker(const Warm& warm, WorkerSeams seams, Recorder& recorder,
               const std::vector<Injection>& injections) {
  WorkerRun worker(warm, seams, recorder, injections);
  const Result<int> result = worker.run();
  if (result.ok()) return *result;
  seams.log.error("the worker ends", {{"error", result.error().to_string()}});
  return is_lasting(result.error()) ? kExitNoRestart : 1;
}

}  // namespace muster
