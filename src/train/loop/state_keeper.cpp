#include "train/loop/state_keeper.h"

#include <fmt/format.h>

#include <atomic>
#include <utility>

#include "ckpt/commit.h"
#include "ckpt/digest.h"
#include "ckpt/retention.h"
#include "ckpt/scan.h"
#include "train/loop/kernel_choices.h"
#include "train/loop/start_check.h"
#include "train/model/model_checkpoint.h"
#include "train/spec/checkpoint_model.h"

namespace muster {
namespace {

// Fast mode: name and version of the vendor's kernels.
constexpr const char* kVendorChoice = "vendor";

State describe(Model<float>& model, Moments<float>& moments) {
  State state;
  state.tensors = parameter_tensors(model);
  const auto add = [&](const Param& param, Moment moment, std::span<float> view) {
    StateTensor tensor;
    tensor.info = moment_info(param, Real::f32, moment);
    tensor.held = whole_box(param.shape);
    tensor.data = reinterpret_cast<std::byte*>(view.data());
    state.tensors.push_back(std::move(tensor));
  };
  for (const Param& param : model.spec().params) {
    add(param, Moment::first, moments.first(param));
    add(param, Moment::second, moments.second(param));
  }
  return state;
}

}  // namespace

struct StateKeeper::CommitOutcome {
  std::atomic<bool> ended = false;  // the rest is complete
  std::optional<Error> error;
  std::string folder, uuid;
  std::vector<std::string> warnings;
};

StateKeeper::StateKeeper(Seams seams, const Warm& warm, const Model<float>& model, State state,
                         std::future<Result<std::unique_ptr<ShardWriter>>> writer)
    : seams_(std::move(seams)),
      warm_(warm),
      model_(model),
      state_(std::move(state)),
      coming_writer_(std::move(writer)) {}

StateKeeper::~StateKeeper() {
  join_commit();
}

Result<std::unique_ptr<StateKeeper>> StateKeeper::make(Seams seams, const Warm& warm,
                                                       Model<float>& model,
                                                       Moments<float>& moments) {
  MUSTER_TRY(const RingOptions ring, ring_options(warm.config.checkpoint));
  auto writer = std::async(std::launch::async, [&files = seams.files, ring] {
    return ShardWriter::make(files, ring).context("checkpoint buffers");
  });
  return std::unique_ptr<StateKeeper>(
      new StateKeeper(seams, warm, model, describe(model, moments), std::move(writer)));
}

Result<std::optional<ScalarState>> StateKeeper::load(const std::string& folder) {
  MUSTER_TRY(auto reader, CheckpointReader::open(seams_.files, folder));
  MUSTER_TRY(check_continues(reader.manifest(), warm_).context(folder));
  MUSTER_TRY(restore_state(reader, state_));
  MUSTER_TRY(restore_choices(reader.manifest().numerics).context(folder));
  parent_uuid_ = reader.manifest().uuid;
  return std::optional(state_.scalars);
}

Status StateKeeper::restore_choices(const Numerics& numerics) {
  const auto vendor = numerics.choices.find(kVendorChoice);
  if (vendor != numerics.choices.end() && vendor->second != seams_.vendor) {
    seams_.log.warning(
        "the vendor's kernels are not those of the checkpoint; fast mode will not "
        "repeat its bits",
        {{"then", vendor->second}, {"now", seams_.vendor}});
  }
  return seams_.chooser.restore(kernel_choices_of(numerics.choices, seams_.group.rank().value));
}

Result<std::optional<ScalarState>> StateKeeper::restore() {
  Communicator& group = seams_.group;
  const std::string checkpoints = warm_.run.checkpoints();
  if (group.rank().value == 0) {
    // A crash between commit point and rename leaves a whole checkpoint under its open name.
    const auto scan = scan_checkpoints(seams_.files, checkpoints, Depth::quick);
    if (scan.ok()) {
      for (const FoundCheckpoint& found : scan->valid) {
        if (found.folder.ends_with(kOpenSuffix))
          static_cast<void>(finish_rename(seams_.files, found.folder).ok());
      }
    }
  }
  MUSTER_TRY(group.barrier().wait());
  auto scan = scan_checkpoints(seams_.files, checkpoints, Depth::quick);
  std::vector<FoundCheckpoint> usable;
  if (scan.ok()) {
    usable = scan->valid;
    for (const BadFolder& bad : scan->invalid) {
      // An open folder is a save that a crash cut off: nothing that was ever promised.
      if (group.rank().value == 0 && !bad.folder.ends_with(kOpenSuffix))
        seams_.log.warning(
            "a checkpoint is damaged and passed over",
            {{"folder", bad.folder}, {"error", fmt::format("{}", fmt::join(bad.problems, "; "))}});
    }
  } else
    seams_.log.warning("checkpoints could not be listed", {{"error", scan.error().to_string()}});

  for (;;) {
    MUSTER_TRY(const std::vector<std::string> texts, group.gather_bytes(encode_found(usable)));
    std::vector<std::vector<FoundCheckpoint>> lists;
    for (const std::string& text : texts) {
      MUSTER_TRY(auto list, decode_found(text));
      lists.push_back(std::move(list));
    }
    const auto choice = newest_common(lists);
    if (!choice) return std::optional<ScalarState>();
    // Folder names are the same on one machine; the uuid decides.
    std::string folder = choice->folder;
    for (const FoundCheckpoint& found : usable) {
      if (found.uuid == choice->uuid) folder = found.folder;
    }
    auto loaded = load(folder);
    const bool refused = !loaded.ok() && loaded.error().code() == Code::invalid_argument;
    std::vector<int64_t> failures = {loaded.ok() ? 0 : 1, refused ? 1 : 0};
    MUSTER_TRY(group.all_reduce(std::span(failures), ReduceOp::sum).wait());
    if (failures[1] > 0) {
      if (refused) return std::move(loaded).error();
      return Error(Code::invalid_argument, "another rank refused the checkpoint");
    }
    if (failures[0] == 0) {
      newest_ = folder;
      return loaded;
    }
    seams_.log.warning(
        "a checkpoint is damaged and passed over",
        {{"folder", folder},
         {"error", loaded.ok() ? "found by another rank" : loaded.error().to_string()}});
    std::erase_if(usable, [&](const FoundCheckpoint& f) { return f.uuid == choice->uuid; });
  }
}

void StateKeeper::fail(const std::string& why) {
  failed_ = true;
  failure_ = why;
  seams_.log.warning("a checkpoint could not be saved; the run goes on and tries again",
                     {{"reason", why}});
}

Result<ShardWriter*> StateKeeper::writer() {
  if (coming_writer_.valid()) {
    auto come = coming_writer_.get();
    if (come.ok())
      writer_ = std::move(*come);
    else
      no_writer_ = std::move(come).error();
  }
  if (no_writer_) return *no_writer_;
  return writer_.get();
}

Status StateKeeper::begin(const ScalarState& scalars) {
  MUSTER_CHECK(!begun_);
  join_commit();
  Communicator& group = seams_.group;
  const bool coordinator = group.rank().value == 0;
  // "uuid folder", or empty when the folder could not be made.
  std::string told;
  if (coordinator) {
    const std::string uuid = new_uuid(seams_.random);
    auto folder =
        begin_checkpoint(seams_.files, warm_.run.checkpoints(), scalars.schedule_step, uuid);
    if (folder.ok())
      told = uuid + " " + *folder;
    else
      fail(folder.error().to_string());
  }
  MUSTER_TRY(const std::vector<std::string> answers, group.gather_bytes(told));
  const std::string& answer = answers[0];
  if (answer.empty()) {
    failed_ = true;
    return {};
  }
  uuid_ = answer.substr(0, answer.find(' '));
  folder_ = answer.substr(answer.find(' ') + 1);
  saving_ = scalars;
  numerics_ = numerics_of(warm_.config);
  if (warm_.config.train.mode == TrainSettings::Mode::fast) {
    MUSTER_TRY(const std::vector<std::string> texts, group.gather_bytes(seams_.chooser.to_text()));
    numerics_.choices.merge(join_kernel_choices(texts));
    numerics_.choices[kVendorChoice] = seams_.vendor;
  }
  failed_ = false;
  own_result_.reset();
  SaveRequest request;
  request.folder = folder_;
  request.uuid = uuid_;
  request.shard = group.rank().value;
  request.shards = group.world();
  state_.scalars = scalars;
  request.slices = slices_of_shard(state_, request.shard, request.shards);
  const auto ring = writer();
  const Status status = ring.ok() ? (*ring)->begin(std::move(request)) : Status(ring.error());
  if (!status.ok()) own_result_ = status.error();
  begun_ = true;
  return {};
}

void StateKeeper::before_update() {
  if (writer_ != nullptr) writer_->before_update();
}

bool StateKeeper::ready() {
  MUSTER_CHECK(begun_);
  if (!own_result_) {
    if (auto result = writer_->poll()) own_result_ = std::move(*result);
  }
  return own_result_.has_value();
}

Status StateKeeper::finish() {
  MUSTER_CHECK(begun_ && own_result_.has_value());
  begun_ = false;
  const bool ok = own_result_->ok();
  // First byte: '+' a report follows, '-' an error's text.
  const std::string mine =
      ok ? "+" + encode_report(**own_result_) : "-" + own_result_->error().to_string();
  MUSTER_TRY(const std::vector<std::string> all, seams_.group.gather_bytes(mine));
  std::vector<ShardReport> reports;
  std::string failure;
  for (size_t rank = 0; rank < all.size(); ++rank) {
    if (all[rank].starts_with('+')) {
      auto report = decode_report(std::string_view(all[rank]).substr(1));
      if (report.ok())
        reports.push_back(std::move(*report));
      else
        failure = fmt::format("rank {}: {}", rank, report.error().to_string());
    } else {
      failure = fmt::format("rank {}: {}", rank, all[rank].substr(1));
    }
  }
  const bool coordinator = seams_.group.rank().value == 0;
  if (!failure.empty()) {
    if (coordinator) {
      fail(failure);
      const Status removed = abandon_checkpoint(seams_.files, folder_);
      if (!removed.ok())
        seams_.log.warning("an unfinished save could not be removed",
                           {{"error", removed.error().to_string()}});
    }
    failed_ = true;
    failure_ = failure;
    return {};
  }
  if (coordinator) commit(std::move(reports));
  return {};
}

// Syncs and renames take milliseconds to seconds on a busy disk; the step thread does not wait for
// them.
void StateKeeper::commit(std::vector<ShardReport> reports) {
  CommitRequest request;
  request.folder = folder_;
  request.reports = std::move(reports);
  request.expected = tensor_infos(state_);
  Manifest& manifest = request.manifest;
  manifest.uuid = uuid_;
  manifest.parent = parent_uuid_;
  manifest.created = seams_.clock.wall().count();
  manifest.scalars = saving_;
  manifest.config = warm_.config_text;
  manifest.tokenizer = warm_.tokenizer.fingerprint().hex();
  manifest.numerics = numerics_;
  request.attachments = model_attachments(model_.spec(), warm_.tokenizer_json);

  outcome_ = std::make_unique<CommitOutcome>();
  commit_thread_ = std::thread([this, outcome = outcome_.get(), request = std::move(request)] {
    write_commit(request, *outcome);
    outcome->ended.store(true);
  });
}

void StateKeeper::write_commit(const CommitRequest& request, CommitOutcome& outcome) {
  auto committed = commit_checkpoint(seams_.files, request);
  if (!committed.ok()) {
    outcome.error = std::move(committed).error();
    static_cast<void>(abandon_checkpoint(seams_.files, request.folder).ok());
    return;
  }
  outcome.folder = committed->folder;
  outcome.uuid = request.manifest.uuid;
  outcome.warnings = committed->warnings;
  const auto kept =
      apply_retention(seams_.files, warm_.run.checkpoints(), warm_.config.checkpoint.keep, {});
  if (!kept.ok())
    outcome.warnings.push_back(kept.error().to_string());
  else
    outcome.warnings.insert(outcome.warnings.end(), kept->problems.begin(), kept->problems.end());
}

void StateKeeper::join_commit() {
  if (!commit_thread_.joinable()) return;
  commit_thread_.join();
  for (const std::string& warning : outcome_->warnings)
    seams_.log.warning("checkpoint", {{"warning", warning}});
  if (outcome_->error) {
    fail(outcome_->error->to_string());
  } else {
    newest_ = outcome_->folder;
    parent_uuid_ = outcome_->uuid;
  }
}

bool StateKeeper::wants_retry() {
  // Only a commit that has ended is taken in here: the step thread does not wait for the disk.
  if (commit_thread_.joinable() && outcome_->ended.load()) join_commit();
  return failed_;
}

Status StateKeeper::drain() {
  if (begun_) {
    if (!own_result_) own_result_ = writer_->wait();
    MUSTER_TRY(finish());
  }
  join_commit();
  return seams_.group.barrier().wait();
}

std::string StateKeeper::newest() {
  return newest_;
}

Hash128 StateKeeper::digest(const ScalarState& scalars) {
  state_.scalars = scalars;
  return digest_of(state_);
}

}  // namespace muster
