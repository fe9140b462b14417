// StateKeeper: one rank's hold on checkpoints: which state there is, restoring the newest that
// every rank can use, and saving in the background. Between ranks it talks through the
// communicator; on disk rank 0 is the coordinator.
//
// A save: begin() (all ranks) -> before_update() before the state changes -> ready() on every rank
// -> finish() (all ranks; rank 0 commits on a thread of its own). A failed save is logged, its
// folder removed, and wants_retry() says so on every rank; it never ends the run.
//
// Collective calls are marked; every rank makes them at the same step. One thread.
#pragma once

#include <cstdint>
#include <future>
#include <memory>
#include <optional>
#include <string>
#include <thread>

#include "base/clock.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/random.h"
#include "base/result.h"
#include "ckpt/commit.h"
#include "ckpt/shard_writer.h"
#include "ckpt/state.h"
#include "comm/communicator.h"
#include "train/execute/moments.h"
#include "train/loop/warm.h"
#include "train/model/model.h"
#include "train/ops/gemm_chooser.h"

namespace muster {

class StateKeeper {
 public:
  struct Seams {
    Clock& clock;
    Random& random;
    Files& files;
    Log& log;
    Communicator& group;
    // Fast mode's choices are part of what is saved and restored.
    ops::GemmChooser& chooser;
    std::string vendor;  // whose kernels fast mode may choose: name and version
  };
  // All must outlive the keeper. What goes wrong with the ring of buffers is a failed save.
  static Result<std::unique_ptr<StateKeeper>> make(Seams seams, const Warm& warm,
                                                   Model<float>& model, Moments<float>& moments);
  ~StateKeeper();

  // Collective. Brings back the newest checkpoint that verifies on every rank, or nothing when
  // there is none. A checkpoint that turns out damaged while it is read is passed over by all.
  // Errors: those of check_continues (start_check.h) for the newest one, and of the communicator.
  Result<std::optional<ScalarState>> restore();

  // Collective. Starts a save of the state as it is. What goes wrong on disk is a failed save, not
  // an error.
  Status begin(const ScalarState& scalars);
  // Blocks until the state may change.
  void before_update();
  bool in_flight() const { return begun_; }
  // The save of this rank has ended, well or not.
  bool ready();
  // Collective, when every rank is ready.
  Status finish();
  // Collective. Waits until nothing is in flight and the commit is done.
  Status drain();
  // The last save failed (here or in rank 0's commit, which is logged when this first sees it): ask
  // at every step, and agree on it before acting.
  bool wants_retry();
  // Why the last save failed, as far as this rank knows.
  const std::string& failure() const { return failure_; }

  // The folder of the newest checkpoint that rank 0 committed or restored; empty elsewhere and
  // before.
  std::string newest();
  Hash128 digest(const ScalarState& scalars);

 private:
  StateKeeper(Seams seams, const Warm& warm, const Model<float>& model, State state,
              std::future<Result<std::unique_ptr<ShardWriter>>> writer);
  Result<std::optional<ScalarState>> load(const std::string& folder);
  struct CommitOutcome;
  Status restore_choices(const Numerics& numerics);
  void commit(std::vector<ShardReport> reports);
  void write_commit(const CommitRequest& request, CommitOutcome& outcome);  // commit_thread_
  void join_commit();
  void fail(const std::string& why);

  Seams seams_;
  const Warm& warm_;
  const Model<float>& model_;
  State state_;
  // The ring of buffers is made by a thread while the rank gets ready; joined at the first use.
  Result<ShardWriter*> writer();
  std::future<Result<std::unique_ptr<ShardWriter>>> coming_writer_;
  std::unique_ptr<ShardWriter> writer_;
  std::optional<Error> no_writer_;  // why there is none
  std::optional<Result<ShardReport>> own_result_;
  bool begun_ = false, failed_ = false;
  std::string failure_;
  std::string folder_, uuid_, parent_uuid_;
  ScalarState saving_;
  Numerics numerics_;  // of the save

  std::thread commit_thread_;  // rank 0
  // Written by commit_thread_, read after it has ended.
  std::unique_ptr<CommitOutcome> outcome_;
  std::string newest_;
};

}  // namespace muster
