// For tests and the benchmark: records a whole save (with retention of the one before) on a
// simulated disk, then lets power fail after every operation, in many legal ways, and resumes from
// what is left.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace muster {

enum class SkippedSync { none, files, folders };  // a broken writer, to try the trial itself

struct CrashTrialOptions {
  int shards = 1;
  size_t samples_per_point = 0;
  size_t enumerated_per_point = 0;
  uint64_t seed = 0;
  SkippedSync skip = SkippedSync::none;
};

struct CrashTrial {
  size_t points = 0;  // moments of failure
  size_t images = 0;  // disks resumed from
  size_t resumed_from_old = 0, resumed_from_new = 0;
  std::vector<std::string> failures;
};

CrashTrial run_crash_trial(const CrashTrialOptions& options);

}  // namespace muster
