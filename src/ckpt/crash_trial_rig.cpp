#include "ckpt/crash_trial_rig.h"

#include "ckpt/digest.h"
#include "ckpt/retention.h"
#include "ckpt/scan.h"
#include "ckpt/state_rig.h"
#include "sys/sim_files.h"

namespace muster {
namespace {

const std::string kOld = "0000000000000000000000000000001d";
const std::string kNew = "0000000000000000000000000000002d";
const std::string kCheckpoints = "run/checkpoints";

// A disk on which some syncs do nothing: as if the writer had left them out.
bool left_out(const DiskOp& op, SkippedSync skip) {
  return (skip == SkippedSync::files && op.kind == DiskOp::Kind::sync_file) ||
         (skip == SkippedSync::folders && op.kind == DiskOp::Kind::sync_folder);
}

struct Recording {
  SimDisk from;
  std::vector<DiskOp> ops;
  size_t reported_at = 0;  // operations done when the commit returned
  Hash128 old_digest, new_digest;
};

Recording record_save(SimClock& clock, int shards) {
  SimFiles files(clock);
  MUSTER_CHECK(make_directories(files, "run").ok() && files.sync_directory(".").ok());
  auto writer = ShardWriter::make(files, small_ring()).value();
  TestState state(small_specs(), 1);
  Recording recording;
  save_all(files, *writer, kCheckpoints, state.state, kOld, shards).value();
  recording.old_digest = digest_of(state.state);
  files.start_recording();
  state.fill(2);
  save_all(files, *writer, kCheckpoints, state.state, kNew, shards).value();
  recording.new_digest = digest_of(state.state);
  recording.reported_at = files.recorded().size();
  apply_retention(files, kCheckpoints, 1, {}).value();
  recording.from = files.recorded_from();
  recording.ops = files.recorded();
  return recording;
}

// What a restart does: the newest quick-valid checkpoint that can be restored; then put names
// right, and save again.
Result<Hash128> resume(SimFiles& files) {
  MUSTER_TRY(const Scan scan, scan_checkpoints(files, kCheckpoints, Depth::quick));
  if (scan.valid.empty()) return Error(Code::not_found, "no valid checkpoint");
  TestState state(small_specs(), 99);
  MUSTER_TRY(CheckpointReader reader, CheckpointReader::open(files, scan.valid[0].folder));
  // What passes the quick check must also pass the full one: the manifest comes last.
  MUSTER_TRY(restore_state(reader, state.state));
  const Hash128 digest = digest_of(state.state);
  MUSTER_TRY(const RetentionResult kept, apply_retention(files, kCheckpoints, 1, {}));
  if (!kept.problems.empty()) return Error(Code::io, "retention: " + kept.problems[0]);
  MUSTER_TRY(const Scan after, scan_checkpoints(files, kCheckpoints, Depth::full));
  if (after.valid.empty() || after.valid[0].uuid != scan.valid[0].uuid)
    return Error(Code::internal, "retention lost the checkpoint resumed from");
  if (after.valid[0].folder.ends_with(kOpenSuffix))
    return Error(Code::internal, "the missing rename was not finished");
  return digest;
}

}  // namespace

CrashTrial run_crash_trial(const CrashTrialOptions& options) {
  SimClock clock;
  const Recording recording = record_save(clock, options.shards);
  SimRandom random(options.seed);
  CrashTrial trial;
  SimDisk disk = recording.from;
  for (size_t done = 0; done <= recording.ops.size(); ++done) {
    if (done > 0 && !left_out(recording.ops[done - 1], options.skip))
      disk.apply(recording.ops[done - 1], clock.wall());
    ++trial.points;
    std::vector<CrashChoice> choices = disk.enumerate_crashes(options.enumerated_per_point);
    for (size_t i = 0; i < options.samples_per_point; ++i)
      choices.push_back(disk.sample_crash(random));
    for (const CrashChoice& choice : choices) {
      ++trial.images;
      SimFiles files(clock, disk.after_crash(choice));
      const auto digest = resume(files);
      const bool is_new = digest.ok() && *digest == recording.new_digest;
      const bool is_old = digest.ok() && *digest == recording.old_digest;
      trial.resumed_from_new += is_new ? 1 : 0;
      trial.resumed_from_old += is_old ? 1 : 0;
      if (is_new || (is_old && done < recording.reported_at)) continue;
      const std::string last = done > 0 ? recording.ops[done - 1].text : "nothing";
      trial.failures.push_back("after operation " + std::to_string(done) + " (" + last + "), " +
                               choice.describe() + ": " +
                               (digest.ok() ? is_old ? "old state after the commit was reported"
                                                     : "a state that never was"
                                            : digest.error().to_string()));
    }
  }
  return trial;
}

}  // namespace muster
