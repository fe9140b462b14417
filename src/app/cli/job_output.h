// What `muster run` and `muster torchrun` share: run a JobSpec with real processes and tell how it
// ended, in words or as JSON.
#pragma once

#include <string>

#include "app/cli/verb.h"
#include "runtime/supervise/supervisor.h"

namespace muster {

inline constexpr int64_t kMostRanks = 65'536;

// Runs the job, prints the first cause and the verdict on standard error (with `json` the report on
// standard output) and returns the exit code. `run_directory` not empty: the event log goes there.
int run_job(World& world, const std::string& program, JobSpec spec, JobObserver* observer,
            const std::string& run_directory, bool json);

// A folder below $TMPDIR that does not exist yet; it is made when the first log line comes.
std::string temporary_log_directory(const World& world, const std::string& what);

// 128 random bits as text.
std::string fresh_run_id(Random& random);

}  // namespace muster
