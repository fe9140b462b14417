// StepExecutor: runs a planned step (train/step) on the blocks of a model. Owns the step's memory,
// placed as planned and allocated once, and the thread of the comm stream.
//
// run() executes the comp stream on the calling thread and returns when both streams are done.
// Collectives run on the executor's thread meanwhile, so the communicator must not be used by
// others during run(); between runs it is free. Nothing is allocated in run().
//
// Every rank must run the same steps. All ranks see the same loss and gradient norm, so they agree
// without asking whether a step counts: where one is not finite, or no target is valid, parameters
// and moments stay as they are on every rank and the report says why.
//
// Errors: those of the communicator; the step is then left half done (gradients only: parameters
// and moments are untouched) and the group is broken for all ranks. One caller at a time.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "comm/communicator.h"
#include "trace/recorder.h"
#include "train/execute/moments.h"
#include "train/model/model.h"
#include "train/optim/adamw.h"
#include "train/step/plan_step.h"

namespace muster {

// What a step works with; all must outlive the executor.
template <class T>
struct StepParts {
  Model<T>& model;
  Moments<T>& moments;
  ops::Exec& exec;  // with scratch for scratch_bytes() more than is in use
  Communicator& group;
  const Clock& clock;
  Recorder* recorder = nullptr;   // null: the comm stream records nothing
  TraceWriter* writer = nullptr;  // of the calling thread; null: nothing
};

struct StepRequest {
  int64_t step = 1;                          // its number, counted from 1
  std::span<const BatchView> micro_batches;  // this rank's, in the order of my_micro_batches()
  double lr = 0;
  int64_t updates_done = 0;  // before this step; skipped steps do not count
};

enum class StepOutcome : uint8_t { updated, loss_not_finite, gradient_not_finite, no_valid_tokens };
std::string_view step_outcome_name(StepOutcome outcome);

struct StepReport {
  StepOutcome outcome = StepOutcome::updated;
  double loss = 0;           // nats per valid token, over all ranks
  int64_t valid_tokens = 0;  // over all ranks
  double gradient_norm = 0;  // global, before clipping
  // Loss sums of this rank's micro-batches, to name the bad one; valid until the next run.
  std::span<const double> micro_batch_losses;
  Nanos total{0};
  Nanos exposed_comm{0};   // the comp stream waited for the comm stream
  Nanos before_update{0};  // in Options::before_update
  Nanos compute{0};        // the rest
};

template <class T>
class StepExecutor {
 public:
  struct Options {
    AdamW adamw;
    double max_gradient_norm = 1;  // 0 = no clipping
    // Fills memory with NaN when it is released: a program that reads it afterwards shows.
    bool poison_released = false;
    // Called on the thread of run() once a step, just before it first changes parameters or
    // moments; not in a step that changes nothing. May block, e.g. while a checkpoint still reads
    // them. Null: nothing.
    std::function<void()> before_update;
  };

  // `step` must be planned for the model's spec and the group's rank and size (else a bug). Errors:
  // no_space, those of Communicator::shared_alloc and of validate(AdamW).
  static Result<std::unique_ptr<StepExecutor>> make(PlannedStep step, const StepParts<T>& parts,
                                                    const Options& options);
  ~StepExecutor();

  // Scratch that run() takes from exec.arena.
  static int64_t scratch_bytes(const PlannedStep& step, int threads);

  Result<StepReport> run(const StepRequest& request);

  const StepProgram& program() const;
  // The summed gradient of the last step, as it was before clipping: the unit's buffer.
  const T* gradient(int unit) const;

 private:
  struct State;
  explicit StepExecutor(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace muster
