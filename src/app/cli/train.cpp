// muster train: one command from a configuration to a trained model and a report.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <ctime>
#include <filesystem>
#include <thread>

#include "app/cli/options.h"
#include "app/cli/trainer_program.h"
#include "app/cli/verb.h"
#include "app/train/open_run.h"
#include "app/train/prepare_run.h"
#include "app/train/resolve_config.h"
#include "app/train/run_report.h"
#include "app/train/train_observer.h"
#include "base/units.h"
#include "ckpt/shard_writer.h"
#include "data/cache_folder.h"
#include "runtime/supervise/supervisor.h"
#include "store/event_log.h"
#include "sys/real_files.h"
#include "sys/real_spawner.h"
#include "text/tokenizer_json.h"
#include "train/loop/injection.h"
#include "train/loop/start_check.h"
#include "train/loop/warm.h"
#include "train/loop/worker.h"

namespace muster {
namespace {

constexpr const char* kFooter =
    "Exit codes: 0 trained to the end (or to train.stop_after); 1 failed, or settings, corpus or "
    "run directory were refused;\n"
    "  2 wrong arguments; 93 the run would fail again the same way (a checkpoint of other settings "
    "or data,\n"
    "  steps that are not finite, no room for the last state); 124 a worker hung, or their "
    "warm-up; 125 the keeper "
    "process died; 126 the\n"
    "  trainer program is not executable, 127 it is not found; 128 + n stopped by signal n, or a "
    "worker died of it and\n"
    "  restarts are used up. A start that is refused leaves the run directory as it was. SIGINT or "
    "SIGTERM saves a\n"
    "  checkpoint and stops; a second one kills at once. --resume goes on.";

struct Arguments {
  std::string config;
  std::optional<int64_t> workers, steps, seed;
  std::optional<std::string> run_dir;
  bool resume = false, json = false;
  std::vector<std::string> sets, injections;
};

std::string stem(const std::string& path) {
  std::string name = path.substr(path.rfind('/') + 1);
  return name.ends_with(".toml") ? name.substr(0, name.size() - 5) : name;
}

std::string default_run_dir(const World& world, const std::string& config) {
  const time_t now = std::chrono::duration_cast<std::chrono::seconds>(world.clock.wall()).count();
  tm local{};
  localtime_r(&now, &local);
  char stamp[32];
  std::strftime(stamp, sizeof stamp, "%Y%m%d-%H%M%S", &local);
  return fmt::format("runs/{}-{}", stem(config), stamp);
}

class TrainVerb {
 public:
  TrainVerb(World& world, Arguments arguments)
      : world_(world), arguments_(std::move(arguments)), files_("") {}

  Result<int> run();

 private:
  Status resolve();
  Status check_arguments() const;
  void state(const std::string& name, const std::string& value);
  Result<Warm> admit();
  Status write_run(const Warm& warm);
  Result<JobSpec> job_spec();
  Result<JobReport> supervise(JobSpec spec, LivePanel& panel);
  int conclude(JobReport job);
  FILE* text_out() const { return arguments_.json ? stderr : stdout; }

  World& world_;
  Arguments arguments_;
  RealFiles files_;
  std::optional<Config> config_;
  std::optional<TrainConfig> typed_;
  std::optional<RunDirectory> run_;
  std::unique_ptr<FileLock> lock_;
  std::vector<ReportFact> facts_;
  std::vector<std::string> problems_;
  bool root_given_ = false;  // by --run-dir or run.dir
};

// Settings from file, environment, --set and the verb's own flags, which are --set in short.
Status TrainVerb::resolve() {
  std::vector<std::string> sets;
  if (arguments_.workers) sets.push_back(fmt::format("run.workers={}", *arguments_.workers));
  if (arguments_.steps) sets.push_back(fmt::format("train.steps={}", *arguments_.steps));
  if (arguments_.seed) sets.push_back(fmt::format("train.seed={}", *arguments_.seed));
  sets.insert(sets.end(), arguments_.sets.begin(), arguments_.sets.end());
  MUSTER_TRY(Config config,
             resolve_train_config(world_, files_, arguments_.config, std::move(sets)));
  config_.emplace(std::move(config));
  MUSTER_TRY(const TrainConfig typed, make_train_config(*config_));
  typed_.emplace(typed);
  std::string root = arguments_.run_dir.value_or(typed.run.dir);
  root_given_ = !root.empty();
  if (!root_given_) root = default_run_dir(world_, arguments_.config);
  run_.emplace(std::move(root));
  return {};
}

// Before anything is written. What the command line asks for cannot be meant.
Status TrainVerb::check_arguments() const {
  if (arguments_.resume && !root_given_)
    return Error(Code::invalid_argument,
                 "--resume needs the folder of a run: give --run-dir or set run.dir");
  for (const std::string& text : arguments_.injections) {
    MUSTER_TRY(const Injection injection, parse_injection(text));
    if (injection.rank.value >= typed_->run.workers) {
      return Error(Code::invalid_argument, fmt::format("--inject {}: there are ranks 0 to {} only",
                                                       text, typed_->run.workers - 1));
    }
  }
  return {};
}

void TrainVerb::state(const std::string& name, const std::string& value) {
  facts_.push_back({name, value});
  fmt::print(stderr, "{}: {}\n", name, value);
}

// What the run will be, from settings, corpus and run directory; nothing is written there. A folder
// that jobs have used is locked before it is read; a new one when it is written.
Result<Warm> TrainVerb::admit() {
  if (files_.stat(run_->lock_file()).ok()) {
    MUSTER_TRY(lock_, run_->lock(files_));
  }
  MUSTER_TRY(check_run_directory(files_, *run_, arguments_.resume));
  MUSTER_TRY(
      check_corpus_place(*run_, typed_->data.paths, std::filesystem::current_path().string()));
  if (arguments_.resume) {
    MUSTER_TRY(const auto changes, changed_settings(files_, *run_, *config_));
    for (const std::string& change : changes) state("changed setting", change);
  }
  MUSTER_TRY(Corpus corpus,
             Corpus::open(files_, world_.random,
                          corpus_spec(typed_->data, spool_folder(world_.environment))));
  state("corpus", corpus_text(corpus));
  std::string tokenizer_json;
  if (arguments_.resume && files_.stat(run_->tokenizer()).ok()) {
    MUSTER_TRY(tokenizer_json, read_file(files_, run_->tokenizer()));
  } else {
    const int threads = static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
    MUSTER_TRY(const PreparedTokenizer prepared,
               prepare_tokenizer(files_, world_.clock, *typed_, corpus,
                                 cache_folder(world_.environment), threads));
    tokenizer_json = tokenizer_to_json(prepared.tokenizer);
    state("tokenizer",
          fmt::format("{} tokens, {}", prepared.tokenizer.vocabulary_size(), prepared.how));
  }
  const auto isa = world_.environment.find("MUSTER_ISA");
  return make_warm(*run_, *config_, std::move(corpus), std::move(tokenizer_json),
                   isa == world_.environment.end() ? "" : isa->second);
}

Status TrainVerb::write_run(const Warm& warm) {
  if (lock_ == nullptr) {
    MUSTER_TRY(lock_, run_->lock(files_));
    // Another job may have begun there since.
    MUSTER_TRY(check_run_directory(files_, *run_, arguments_.resume));
  }
  MUSTER_TRY(write_file_durably(files_, run_->tokenizer(), warm.tokenizer_json));
  MUSTER_TRY(set_aside_job_before(files_, *run_));
  return write_settings(files_, *run_, *config_);
}

Result<JobSpec> TrainVerb::job_spec() {
  JobSpec spec;
  spec.ranks = static_cast<int>(typed_->run.workers);
  const std::string trainer = trainer_program(world_);
  if (!files_.stat(trainer).ok()) {
    return Error(
        Code::not_found,
        fmt::format(
            "the trainer program {} is not there; build it with ./dev build, or set MUSTER_TRAINER",
            trainer));
  }
  spec.template_command = {trainer, "template", "--run-dir", run_->root()};
  spec.command = {trainer, "worker", "--run-dir", run_->root()};
  for (const std::string& text : arguments_.injections)
    spec.command.insert(spec.command.end(), {"--inject", text});
  spec.environment = world_.environment;
  spec.environment["OMP_NUM_THREADS"] = std::to_string(typed_->train.threads);
  spec.restart.scope = typed_->run.max_restarts > 0 ? RestartScope::group : RestartScope::never;
  spec.restart.max_restarts = static_cast<int>(typed_->run.max_restarts);
  // Trainers come back from a checkpoint, so there is nothing to wait for when one has failed.
  spec.stop.fail_signal = SIGKILL;
  spec.stop.stop_grace = std::chrono::minutes{5};
  spec.template_limit = typed_->train.warm_up_timeout;
  spec.hang.enabled = true;
  if (const Nanos timeout = typed_->train.hang_timeout; timeout.count() > 0) {
    spec.hang.least = timeout;
    // A time-out that was asked for holds before any step time is known too, but a start may be
    // slow on a busy machine.
    spec.hang.start_limit = std::max<Nanos>(timeout, std::chrono::seconds{10});
  }
  spec.logs.terminal = false;
  spec.logs.directory = run_->logs();
  spec.trace.emplace();
  return spec;
}

Result<JobReport> TrainVerb::supervise(JobSpec spec, LivePanel& panel) {
  const auto disabled = world_.environment.find("MUSTER_DISABLE");
  MUSTER_TRY(auto spawner,
             RealSpawner::start({disabled == world_.environment.end() ? "" : disabled->second}));
  facts_.push_back({"process teardown", spawner->kill_method()});
  // Of this process, but workers have the same kernel, user and folder.
  const auto engine = ShardWriter::probe_engine(files_, run_->root());
  state("checkpoint writes", engine.ok() ? *engine : engine.error().to_string());
  MUSTER_TRY(EventLog events, EventLog::open(run_->events(), world_.clock));
  TrainObserver observer(world_.clock, files_, *run_, panel, events, typed_->train.steps);
  Supervisor supervisor({world_.clock, world_.random, world_.log, *spawner, &events},
                        std::move(spec), &observer);
  auto report = supervisor.run();
  observer.finish();
  problems_.insert(problems_.end(), observer.problems().begin(), observer.problems().end());
  return report;
}

int TrainVerb::conclude(JobReport job) {
  job.exit_code = train_exit_code(files_, *run_, job);
  RunFacts facts{*run_,     stem(arguments_.config), job, setting_origins(*config_), facts_,
                 problems_, typed_->run.workers};
  RunSummary summary = summarize_run(files_, facts);
  const ReportInput& report = summary.report;
  int written_reports = 0;
  for (const auto& [path, text] : {std::pair{run_->report_markdown(), report_markdown(report)},
                                   std::pair{run_->report_html(), report_html(report)}}) {
    const Status written = write_file_durably(files_, path, text);
    written_reports += written.ok() ? 1 : 0;
    if (!written.ok()) fmt::print(stderr, "muster train: {}\n", written.error().to_string());
  }
  FILE* out = text_out();
  for (const ReportSample& sample : report.samples) {
    fmt::print(out, "\n--- {} ---\n{}[[{}]]{}\n", sample.title, sample.before, sample.text,
               sample.after);
  }
  fmt::print(out, "\n{}\n", report.outcome);
  if (report.validation_bits_per_byte)
    fmt::print(out, "held-out bits per byte: {:.4f}\n", *report.validation_bits_per_byte);
  if (written_reports > 0)
    fmt::print(out, "report: {} and {}\n", run_->report_html(), run_->report_markdown());
  if (job.exit_code != 0) {
    if (job.first_cause) fmt::print(stderr, "muster train: {}\n", job.first_cause->to_string());
    if (job.exit_code == kExitHang && job.first_cause &&
        job.first_cause->kind == CauseKind::start_failed)
      fmt::print(stderr, "muster train: raise train.warm_up_timeout if the corpus needs longer\n");
    fmt::print(stderr, "muster train: {}; logs in {}; {} with --resume --run-dir {}\n", job.verdict,
               run_->logs(),
               job.exit_code == kExitNoRestart ? "mend the cause, then go on" : "go on",
               run_->root());
  }
  // The run is there, but what was promised of it is not.
  if (written_reports == 0 && job.exit_code == 0)
    summary.json["exit_code"] = job.exit_code = kExitFailed;
  if (arguments_.json) fmt::print("{}\n", summary.json.dump());
  return job.exit_code;
}

Result<int> TrainVerb::run() {
  MUSTER_TRY(resolve());
  if (const Status meant = check_arguments(); !meant.ok()) {
    fmt::print(stderr, "muster train: {}\n", meant.error().to_string());
    return kExitUsage;
  }
  MUSTER_TRY(JobSpec spec, job_spec());
  {
    MUSTER_TRY(const Warm warm, admit());
    if (const Status accepted = check_start(files_, warm); !accepted.ok()) {
      fmt::print(stderr, "muster train: {}\n", accepted.error().to_string());
      return kExitNoRestart;
    }
    MUSTER_TRY(write_run(warm));
  }
  LivePanel panel(world_.clock, arguments_.json ? STDERR_FILENO : STDOUT_FILENO,
                  std::chrono::seconds{5}, 10);
  MUSTER_TRY(JobReport job, supervise(std::move(spec), panel));
  return conclude(std::move(job));
}

}  // namespace

int train_main(World& world, const std::vector<std::string>& words) {
  Arguments arguments;
  Options options(
      "train",
      "Trains a model as CONFIG says: supervised workers, checkpoints, a live view, a report.");
  options.positional("CONFIG", arguments.config,
                     "a TOML file; `muster config explain CONFIG` shows every setting");
  options.value("--workers", arguments.workers, "worker processes (run.workers)");
  options.value("--steps", arguments.steps, "optimizer steps (train.steps)");
  options.value("--seed", arguments.seed, "train.seed");
  options.value("--run-dir", arguments.run_dir, "folder of the run (default: runs/NAME-TIME)");
  options.flag("--resume", arguments.resume,
               "go on from the newest valid checkpoint of --run-dir (or run.dir)");
  options.values("--set", arguments.sets, "override a setting: key=value (repeatable)");
  options.values("--inject", arguments.injections,
                 "bring about a fault: kill:rank=R,step=S, hang:…, nan:… (repeatable)");
  options.flag("--json", arguments.json, "one JSON object on standard output at the end");
  options.footer(kFooter);
  if (const auto code = options.parse(words)) return *code;
  const auto code = TrainVerb(world, std::move(arguments)).run();
  if (code.ok()) return *code;
  fmt::print(stderr, "muster train: {}\n", code.error().to_string());
  return kExitFailed;
}

}  // namespace muster
