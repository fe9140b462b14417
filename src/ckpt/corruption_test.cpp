// A checkpoint that was damaged after it was written: every single changed byte and every lost tail
// of every file is found, and loads never hand out a wrong byte. (1,000 random flips of a larger
// one: bench/ckpt.)
#include <gtest/gtest.h>

#include "ckpt/digest.h"
#include "ckpt/retention.h"
#include "ckpt/scan.h"
#include "ckpt/state_rig.h"
#include "sys/sim_files.h"

namespace muster {
namespace {

const std::string kUuid = "00112233445566778899aabbccddeeff";
const std::string kUuid2 = "10112233445566778899aabbccddeeff";

class CorruptionTest : public testing::Test {
 protected:
  SimClock clock_;
  SimFiles files_{clock_};
  // Tiny, so that every byte can be tried.
  TestState state_{
      {{"w", Dtype::f32, {40}, Role::parameter}, {"m", Dtype::f32, {40}, Role::moment}}, 1};
  std::unique_ptr<ShardWriter> writer_ = ShardWriter::make(files_, small_ring()).value();
  std::string folder_ = save_all(files_, *writer_, "c", state_.state, kUuid, 1).value().folder;

  void overwrite(const std::string& path, int64_t offset, std::string_view bytes) {
    const FileHandle file = files_.open(path, {OpenMode::write_existing, false}).value();
    ASSERT_TRUE(files_.write_at(file, std::as_bytes(std::span(bytes)), offset).ok());
    ASSERT_TRUE(files_.close(file).ok());
  }
  void rewrite(const std::string& path, std::string_view bytes) {
    const FileHandle file = files_.open(path, {OpenMode::write_truncate, false}).value();
    ASSERT_TRUE(files_.write_at(file, std::as_bytes(std::span(bytes)), 0).ok());
    ASSERT_TRUE(files_.close(file).ok());
  }
  std::vector<std::string> all_files() {
    std::vector<std::string> paths;
    const auto entries = files_.list(folder_).value();
    for (const auto& entry : entries) paths.push_back(join_path(folder_, entry.name));
    return paths;
  }
};

TEST_F(CorruptionTest, EveryChangedByteOfEveryFileIsFound) {
  const auto paths = all_files();
  ASSERT_EQ(paths.size(), 3u);  // shard, attachment, manifest
  for (const std::string& path : paths) {
    const std::string good = read_file(files_, path).value();
    for (size_t at = 0; at < good.size(); ++at) {
      // One bit, and all bits: a shard's padding spaces included.
      for (const int change : {1, 255}) {
        const char bad = static_cast<char>(good[at] ^ change);
        overwrite(path, static_cast<int64_t>(at), {&bad, 1});
        ASSERT_FALSE(verify_checkpoint(files_, folder_, Depth::full).valid()) << path << " " << at;
        overwrite(path, static_cast<int64_t>(at), {&good[at], 1});
      }
    }
  }
  EXPECT_TRUE(verify_checkpoint(files_, folder_, Depth::full).valid());
}

TEST_F(CorruptionTest, LoadsGiveTheRightBytesOrAnError) {
  const Hash128 wanted = digest_of(state_.state);
  const auto paths = all_files();
  int refused = 0;
  for (const std::string& path : paths) {
    const std::string good = read_file(files_, path).value();
    for (size_t at = 0; at < good.size(); at += 3) {
      const char bad = static_cast<char>(good[at] ^ 4);
      overwrite(path, static_cast<int64_t>(at), {&bad, 1});
      auto reader = CheckpointReader::open(files_, folder_);
      TestState loaded(
          {{"w", Dtype::f32, {40}, Role::parameter}, {"m", Dtype::f32, {40}, Role::moment}}, 7);
      if (reader.ok() && restore_state(*reader, loaded.state).ok()) {
        ASSERT_EQ(digest_of(loaded.state), wanted) << path << " " << at;
      } else {
        ++refused;
      }
      overwrite(path, static_cast<int64_t>(at), {&good[at], 1});
    }
  }
  EXPECT_GT(refused, 100);
}

TEST_F(CorruptionTest, EveryTruncationAndEveryMissingFileIsFound) {
  const auto paths = all_files();
  for (const std::string& path : paths) {
    const std::string good = read_file(files_, path).value();
    for (size_t size = 0; size < good.size(); size += size < 64 ? 1 : 61) {
      rewrite(path, std::string_view(good).substr(0, size));
      ASSERT_FALSE(verify_checkpoint(files_, folder_, Depth::quick).valid()) << path << " " << size;
    }
    rewrite(path, good + "x");
    EXPECT_FALSE(verify_checkpoint(files_, folder_, Depth::quick).valid()) << path;
    ASSERT_TRUE(files_.remove(path).ok());
    EXPECT_FALSE(verify_checkpoint(files_, folder_, Depth::quick).valid()) << path;
    rewrite(path, good);
    EXPECT_TRUE(verify_checkpoint(files_, folder_, Depth::full).valid());
  }
}

TEST_F(CorruptionTest, AShardOfAnotherSaveIsFoundAtOnce) {
  const auto other = save_all(files_, *writer_, "c", state_.state, kUuid2, 1);
  ASSERT_TRUE(other.ok());
  const std::string name = "/" + shard_file_name(0, 1);
  rewrite(folder_ + name, read_file(files_, other->folder + name).value());
  const Verdict verdict = verify_checkpoint(files_, folder_, Depth::quick);
  ASSERT_FALSE(verdict.valid());
  EXPECT_NE(verdict.problems[0].find("another save"), std::string::npos) << verdict.problems[0];
}

TEST_F(CorruptionTest, ACopyUnderAnotherNameStaysValid) {
  ASSERT_TRUE(files_.rename(folder_, "c/backup of tuesday").ok());
  const Scan scan = scan_checkpoints(files_, "c", Depth::full).value();
  ASSERT_EQ(scan.valid.size(), 1u);
  EXPECT_EQ(scan.valid[0].folder, "c/backup of tuesday");
}

TEST_F(CorruptionTest, ResumePassesOverADamagedNewestAndRetentionKeepsTheLastGoodOne) {
  state_.fill(2);
  const std::string newest =
      save_all(files_, *writer_, "c", state_.state, kUuid2, 1).value().folder;
  EXPECT_EQ(newest_whole_checkpoint(files_, "c")->uuid, kUuid2);
  overwrite(newest + "/" + shard_file_name(0, 1), 4100, "?");
  EXPECT_EQ(newest_whole_checkpoint(files_, "c")->uuid, kUuid);
  const RetentionResult kept = apply_retention(files_, "c", 1, {}).value();
  EXPECT_TRUE(kept.removed.empty());
  ASSERT_EQ(kept.problems.size(), 1u);
  EXPECT_NE(kept.problems[0].find("MiB 0"), std::string::npos) << kept.problems[0];
}

TEST_F(CorruptionTest, RanksAgreeOnTheNewestThatAllCanUse) {
  const auto at = [](int64_t step, int64_t epoch, const char* uuid) {
    return FoundCheckpoint{std::string("f") + uuid, uuid, step, epoch, 0, 0};
  };
  const std::vector<FoundCheckpoint> a = {at(30, 0, "x"), at(20, 1, "y"), at(20, 0, "z"),
                                          at(10, 0, "w")};
  const auto b =
      decode_found(encode_found({at(20, 0, "z"), at(20, 1, "y"), at(10, 0, "w")})).value();
  EXPECT_EQ(newest_common({a})->uuid, "x");
  EXPECT_EQ(newest_common({a, b})->uuid, "y");  // a tie goes to the higher epoch
  EXPECT_EQ(newest_common({a, {at(10, 0, "w")}})->uuid, "w");
  EXPECT_FALSE(newest_common({a, {}}).has_value());
  EXPECT_FALSE(newest_common({}).has_value());
  EXPECT_FALSE(decode_found("{}").ok());
  EXPECT_FALSE(decode_found("").ok());
}

TEST_F(CorruptionTest, RetentionTouchesNothingForeignAndNoOpenSave) {
  const std::string open = begin_checkpoint(files_, "c", 9, kUuid2).value();
  std::string stale_uuid = kUuid2;
  stale_uuid[0] = '5';
  const std::string stale = begin_checkpoint(files_, "c", 3, stale_uuid).value();
  ASSERT_TRUE(files_.make_directory("c/notes").ok());
  ASSERT_TRUE(files_.make_directory("c/step-of-mine.tmp").ok());
  const RetentionResult kept = apply_retention(files_, "c", 3, {kUuid2}).value();
  EXPECT_EQ(kept.removed, (std::vector<std::string>{stale}));
  EXPECT_TRUE(files_.stat(open).ok());
  EXPECT_TRUE(files_.stat("c/notes").ok());
}

}  // namespace
}  // namespace muster
