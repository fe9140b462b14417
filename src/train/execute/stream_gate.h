// StreamGate: how far the two streams of a running step have come, and whether it has failed. The
// comp stream is the thread that runs the step, the comm stream a thread of its own; each waits
// here for operations of the other (asleep, not spinning).
//
// Positions are those of the program's list; a stream is done up to and including a position.
// Safe from both threads. Allocates only when a step fails.
#pragma once

#include <condition_variable>
#include <mutex>
#include <optional>

#include "base/result.h"
#include "train/step/program.h"

namespace muster {

class StreamGate {
 public:
  // Before a step: nothing is done. Wakes the comm thread.
  void open();
  // The comm thread: sleeps until open() (true) or close() (false).
  bool wait_open();
  // No further steps.
  void close();

  void done(OpStream stream, int position);
  bool is_done(OpStream stream, int position);
  // False once the step has failed.
  bool wait_done(OpStream stream, int position);

  // The first error wins; both streams stop at their next wait.
  void fail(Error error);
  bool failed();
  // The comm thread has nothing more to do in this step.
  void finish_comm();
  // Waits for finish_comm(); the step's error, if any.
  Status wait_finished();

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool opened_ = false, closed_ = false, comm_finished_ = true;
  int position_[2] = {-1, -1};
  std::optional<Error> error_;
};

}  // namespace muster
