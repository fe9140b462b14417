#include "ckpt/retention.h"

#include <algorithm>

#include "base/check.h"
#include "ckpt/commit.h"

namespace muster {
namespace {

bool is_open(const std::string& folder) {
  return folder.ends_with(kOpenSuffix);
}

// "…/step-00000012-<32 hexadecimal digits>.tmp"
bool named_by_begin(std::string_view folder) {
  std::string_view name = folder.substr(folder.rfind('/') + 1);
  if (!name.starts_with("step-") || !name.ends_with(kOpenSuffix)) return false;
  name.remove_suffix(kOpenSuffix.size());
  return name.size() > 32 && Hash128::from_hex(name.substr(name.size() - 32)).has_value();
}

bool belongs_to(std::string_view folder, const std::vector<std::string>& uuids) {
  if (folder.ends_with(kOpenSuffix)) folder.remove_suffix(kOpenSuffix.size());
  return std::any_of(uuids.begin(), uuids.end(),
                     [&](const std::string& uuid) { return folder.ends_with(uuid); });
}

}  // namespace

RetentionPlan plan_retention(const Scan& scan, int64_t keep, const std::vector<std::string>& open) {
  MUSTER_CHECK(keep >= 1, keep);
  RetentionPlan plan;
  for (size_t i = 0; i < scan.valid.size(); ++i) {
    const std::string& folder = scan.valid[i].folder;
    if (belongs_to(folder, open)) continue;
    if (i >= static_cast<size_t>(keep)) {
      plan.remove.push_back(folder);
    } else if (is_open(folder)) {
      plan.finish.push_back(folder);
    }
  }
  for (const BadFolder& bad : scan.invalid)
    if (!bad.has_manifest && named_by_begin(bad.folder) && !belongs_to(bad.folder, open))
      plan.remove.push_back(bad.folder);
  return plan;
}

Result<RetentionResult> apply_retention(Files& files, const std::string& checkpoints, int64_t keep,
                                        const std::vector<std::string>& open) {
  MUSTER_TRY(Scan scan, scan_checkpoints(files, checkpoints, Depth::quick));
  RetentionResult result;
  // The first that verifies fully leads; newer ones that do not are no reason to remove anything.
  while (!scan.valid.empty()) {
    Verdict verdict = verify_checkpoint(files, scan.valid[0].folder, Depth::full);
    if (verdict.valid()) break;
    result.problems.push_back(scan.valid[0].folder + ": damaged: " + verdict.problems[0]);
    scan.valid.erase(scan.valid.begin());
  }
  const RetentionPlan plan = plan_retention(scan, keep, open);
  for (const std::string& folder : plan.finish) {
    const auto renamed = finish_rename(files, folder);
    if (renamed.ok()) {
      result.finished.push_back(*renamed);
    } else {
      result.problems.push_back(renamed.error().to_string());
    }
  }
  for (const std::string& folder : plan.remove) {
    const Status removed = abandon_checkpoint(files, folder);
    if (removed.ok()) {
      result.removed.push_back(folder);
    } else {
      result.problems.push_back(removed.error().to_string());
    }
  }
  return result;
}

}  // namespace muster
