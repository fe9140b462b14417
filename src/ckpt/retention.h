// Retention: which folders may go, and removing them. The newest checkpoint of a run is never
// touched, and nothing is removed unless a newer checkpoint verifies fully first, so that a disk
// that silently damaged the newest one cannot cost the last good one.
#pragma once

#include <string>
#include <vector>

#include "ckpt/scan.h"

namespace muster {

struct RetentionPlan {
  std::vector<std::string> finish;  // open folders that hold a whole checkpoint: rename
  std::vector<std::string> remove;
};

// Pure. Keeps the `keep` newest valid ones (at least 1) and every folder whose name ends with a
// uuid in `open` (with or without .tmp). A folder without a manifest goes only if it is named as
// begin_checkpoint names them: nothing foreign is removed. Damaged checkpoints stay for people to
// look at.
RetentionPlan plan_retention(const Scan& scan, int64_t keep, const std::vector<std::string>& open);

struct RetentionResult {
  std::vector<std::string> finished, removed, problems;
};

// Scans, verifies the newest fully, acts. `open`: uuids of saves in flight. Called by the
// coordinator, under the run's lock. Errors: those of the scan; what could not be renamed or
// removed is a problem in the result.
Result<RetentionResult> apply_retention(Files& files, const std::string& checkpoints, int64_t keep,
                                        const std::vector<std::string>& open);

}  // namespace muster
