#include "train/loop/state_keeper.h"

#include <gtest/gtest.h>

#include <cerrno>

#include "ckpt/reader.h"
#include "ckpt/scan.h"
#include "train/loop/loop_rig.h"

namespace muster {
namespace {

using namespace loop_rig;  // NOLINT: the vocabulary of these tests

class StateKeeperTest : public testing::Test {
 protected:
  // Up to the commit, which the coordinator does on a thread of its own.
  void save(int64_t step) {
    ASSERT_TRUE(rank_.keeper->begin(rank_.scalars(step)).ok());
    ASSERT_TRUE(wait_until([&] { return rank_.keeper->ready(); }));
  }
  SimClock clock_;
  SimFiles files_{clock_};
  Rank0 rank_{files_, settings()};
};

TEST_F(StateKeeperTest, AFailedCommitIsSeenWhenItHappensAndTheNextSaveIsWhole) {
  for (const int errno_value : {ENOSPC, EIO}) {
    SCOPED_TRACE(errno_value);
    save(1);
    files_.fail_operations(files_.operations(), 1, errno_value);
    ASSERT_TRUE(rank_.keeper->finish().ok());
    // No other save is begun, and nothing is drained.
    ASSERT_TRUE(wait_until([&] { return rank_.keeper->wants_retry(); }));
    EXPECT_NE(rank_.log.text().find("a checkpoint could not be saved"), std::string::npos);
    EXPECT_FALSE(rank_.keeper->failure().empty());
    EXPECT_FALSE(rank_.keeper->in_flight());
    files_.clear_faults();
    EXPECT_EQ(rank_.keeper->newest(), "");
    EXPECT_TRUE(scan_checkpoints(files_, "run/checkpoints", Depth::quick)->valid.empty());
  }
  save(2);
  ASSERT_TRUE(rank_.keeper->drain().ok());
  EXPECT_FALSE(rank_.keeper->wants_retry());
  const std::string folder = rank_.keeper->newest();
  EXPECT_TRUE(verify_checkpoint(files_, folder, Depth::full).valid());
  const Manifest first = read_manifest(files_, folder).value();
  EXPECT_EQ(first.parent, "") << "saves that failed are nobody's parent";
  save(3);
  ASSERT_TRUE(rank_.keeper->drain().ok());
  EXPECT_EQ(read_manifest(files_, rank_.keeper->newest())->parent, first.uuid);
}

TEST_F(StateKeeperTest, TheNewestCheckpointComesBackInAnotherJob) {
  save(4);
  ASSERT_TRUE(rank_.keeper->drain().ok());
  const Hash128 digest = rank_.keeper->digest(rank_.scalars(4));
  Rank0 next(files_, settings());
  next.model->initialize(9, next.team);
  const auto found = next.keeper->restore();
  ASSERT_TRUE(found.ok() && *found) << next.log.text();
  EXPECT_EQ((*found)->schedule_step, 4);
  EXPECT_EQ(next.keeper->digest(**found), digest);
}

TEST(StateKeeper, FastModesChoicesAreInTheManifestAndComeBackFromIt) {
  SimClock clock;
  SimFiles files(clock);
  const Config fast = settings({"train.mode=fast"});
  const ops::GemmShape known{false, true, false, 64, 16, 32}, other{true, false, true, 16, 32, 64};
  {
    Rank0 rank(files, fast, "vendor 1");
    rank.chooser.set(known, ops::GemmChoice::vendor);
    rank.chooser.set(other, ops::GemmChoice::own);
    ASSERT_TRUE(rank.keeper->begin(rank.scalars(1)).ok());
    ASSERT_TRUE(rank.keeper->drain().ok());
    const Numerics numerics = read_manifest(files, rank.keeper->newest())->numerics;
    EXPECT_EQ(numerics.choices,
              (std::map<std::string, std::string>{{"batch.virtual_shards", "8"},
                                                  {"gemm.NT 64 16 32 0", "vendor"},
                                                  {"gemm.TN 16 32 64 1", "own"},
                                                  {"vendor", "vendor 1"}}));
  }
  for (const std::string vendor : {"vendor 1", "vendor 2"}) {
    SCOPED_TRACE(vendor);
    Rank0 next(files, fast, vendor);
    next.chooser.set(known, ops::GemmChoice::own);  // whatever it says, the checkpoint decides
    ASSERT_TRUE(next.keeper->restore().ok());
    EXPECT_EQ(next.chooser.to_text(), "NT 64 16 32 0 vendor\nTN 16 32 64 1 own\n");
    EXPECT_EQ(next.log.text().find("will not repeat its bits") != std::string::npos,
              vendor != "vendor 1");
  }
}

TEST_F(StateKeeperTest, StrictModeRecordsNoKernels) {
  save(1);
  ASSERT_TRUE(rank_.keeper->drain().ok());
  EXPECT_EQ(read_manifest(files_, rank_.keeper->newest())->numerics.choices,
            (std::map<std::string, std::string>{{"batch.virtual_shards", "8"}}));
}

}  // namespace
}  // namespace muster
