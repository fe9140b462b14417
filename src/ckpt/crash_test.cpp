// Power fails at any moment of a save: whatever legal state the disk is left in, the run resumes
// from the old checkpoint or the new one, whole, and from the new one once the commit was reported.
// (Larger form: bench/ckpt.)
#include <gtest/gtest.h>

#include "ckpt/crash_trial_rig.h"

namespace muster {
namespace {

TEST(CrashImages, EveryLegalStateResumesFromACommittedCheckpoint) {
  const CrashTrial trial =
      run_crash_trial({.shards = 2, .samples_per_point = 8, .enumerated_per_point = 24, .seed = 1});
  EXPECT_TRUE(trial.failures.empty())
      << trial.failures.size() << " of " << trial.images << ": " << trial.failures[0];
  EXPECT_GT(trial.images, 500u);
  // The trial itself must see both outcomes, or it proves nothing.
  EXPECT_GT(trial.resumed_from_old, 50u);
  EXPECT_GT(trial.resumed_from_new, 50u);
}

// The same trial must fail when the protocol leaves out what makes it safe.
TEST(CrashImages, TheTrialCatchesAWriterThatSkipsASync) {
  for (const SkippedSync skipped : {SkippedSync::files, SkippedSync::folders}) {
    const CrashTrial trial = run_crash_trial({.shards = 1,
                                              .samples_per_point = 8,
                                              .enumerated_per_point = 24,
                                              .seed = 2,
                                              .skip = skipped});
    EXPECT_FALSE(trial.failures.empty());
  }
}

}  // namespace
}  // namespace muster
