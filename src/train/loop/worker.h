// Worker: one rank's life from joining the group to its last checkpoint: restore, steps, saves,
// validation, samples. What it computes depends on settings and data alone; how many ranks there
// are changes nothing but the time.
//
// Exit codes: 0 done, or stopped after a checkpoint (SIGTERM, SIGINT or the supervisor's command);
// 1 failed, a restart may help; 93 failed, a restart would fail again (bad settings, other data,
// three non-finite steps in a row).
#pragma once

#include <string>
#include <vector>

#include "base/clock.h"
#include "base/log.h"
#include "base/random.h"
#include "net/transport.h"
#include "runtime/rendezvous/torchrun_env.h"
#include "trace/recorder.h"
#include "train/loop/injection.h"
#include "train/loop/warm.h"

namespace muster {

inline constexpr int kExitNoRestart = 93;

struct WorkerSeams {
  Clock& clock;
  Random& random;
  Files& files;
  Transport& transport;
  Log& log;
  Environment environment;           // RANK, WORLD_SIZE, …
  ops::VendorGemm vendor = nullptr;  // fast mode; null: own kernels only
  std::string vendor_name;           // and version, or why there is none
  double peak_flops_per_second = 0;  // of one thread, measured
};

// Runs the rank to its end and returns the exit code. `recorder` must outlive the call.
int run_worker(const Warm& warm, WorkerSeams seams, Recorder& recorder,
               const std::vector<Injection>& injections);

// Asks the worker of this process to stop after the running step; async-signal-safe.
void request_worker_stop();

}  // namespace muster
