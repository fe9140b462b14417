// The simulated disk: what a crash may leave, and faults on demand.
#include "sys/sim_files.h"

#include <gtest/gtest.h>

#include <cerrno>

namespace muster {
namespace {

std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text));
}

class SimFilesTest : public testing::Test {
 protected:
  SimClock clock_;
  SimFiles files_{clock_};

  FileHandle create(std::string_view path) {
    return files_.open(path, {OpenMode::write_new, false}).value();
  }
  // All contents that `path` may have after a crash now; "-" where it does not exist.
  std::set<std::string> after_crash(const std::string& path) {
    const SimDisk disk = files_.disk();
    std::set<std::string> seen;
    const auto look = [&](const CrashChoice& choice) {
      SimFiles image(clock_, disk.after_crash(choice));
      seen.insert(image.stat(path).ok() ? read_file(image, path).value() : "-");
    };
    for (const auto& choice : disk.enumerate_crashes(10'000)) look(choice);
    SimRandom random(7);
    for (int i = 0; i < 200; ++i) look(disk.sample_crash(random));
    return seen;
  }
};

using Texts = std::set<std::string>;

TEST_F(SimFilesTest, ANameWithoutFolderSyncMayBeLostEvenIfItsBytesAreSynced) {
  const FileHandle file = create("f");
  ASSERT_TRUE(files_.write_at(file, bytes_of("abc"), 0).ok());
  ASSERT_TRUE(files_.sync_file(file).ok());
  EXPECT_EQ(after_crash("f"), (Texts{"-", "abc"}));
  ASSERT_TRUE(files_.sync_directory(".").ok());
  EXPECT_EQ(after_crash("f"), (Texts{"abc"}));
}

TEST_F(SimFilesTest, BytesWithoutSyncMayBeLostButNotWhatWasSyncedBefore) {
  const FileHandle file = create("f");
  ASSERT_TRUE(files_.sync_directory("").ok());
  ASSERT_TRUE(files_.write_at(file, bytes_of("abc"), 0).ok());
  ASSERT_TRUE(files_.sync_data(file).ok());
  ASSERT_TRUE(files_.write_at(file, bytes_of("xyz"), 3).ok());
  const std::string garbage(3, '\xDB'), zeros(3, '\0');
  EXPECT_EQ(after_crash("f"), (Texts{"abc", "abcxyz", "abc" + garbage, "abc" + zeros}));
}

TEST_F(SimFilesTest, RenameIsAtomicAndDurableOnlyAfterFolderSync) {
  ASSERT_TRUE(write_file_durably(files_, "f", "old").ok());
  const FileHandle file = create("f.tmp");
  ASSERT_TRUE(files_.write_at(file, bytes_of("new"), 0).ok());
  ASSERT_TRUE(files_.sync_file(file).ok());
  ASSERT_TRUE(files_.rename("f.tmp", "f").ok());
  EXPECT_EQ(after_crash("f"), (Texts{"old", "new"}));
  ASSERT_TRUE(files_.sync_directory(".").ok());
  EXPECT_EQ(after_crash("f"), (Texts{"new"}));
}

TEST_F(SimFilesTest, RenameWithoutFileSyncMayExposeAnEmptyOrTornFile) {
  ASSERT_TRUE(write_file_durably(files_, "f", "old").ok());
  const FileHandle file = create("f.tmp");
  ASSERT_TRUE(files_.write_at(file, bytes_of("new"), 0).ok());
  ASSERT_TRUE(files_.rename("f.tmp", "f").ok());
  EXPECT_TRUE(after_crash("f").contains(""));
}

TEST_F(SimFilesTest, WritesAreTornOnSectorBoundaries) {
  const FileHandle file = create("f");
  ASSERT_TRUE(files_.write_at(file, bytes_of(std::string(1024, 'a')), 0).ok());
  ASSERT_TRUE(files_.sync_file(file).ok());
  ASSERT_TRUE(files_.sync_directory(".").ok());
  ASSERT_TRUE(files_.write_at(file, bytes_of(std::string(1024, 'b')), 0).ok());
  const std::string a(512, 'a'), b(512, 'b');
  EXPECT_EQ(after_crash("f"), (Texts{a + a, a + b, b + a, b + b}));
}

TEST_F(SimFilesTest, AWriteInFlightIsNotCoveredByASync) {
  const FileHandle file = create("f");
  ASSERT_TRUE(files_.sync_directory(".").ok());
  auto queue = files_.make_queue(2).value();
  const std::string text = "abc";
  ASSERT_TRUE(queue->submit_write(file, bytes_of(text), 0, 1).ok());
  ASSERT_TRUE(files_.sync_data(file).ok());
  EXPECT_TRUE(after_crash("f").contains(""));
  ASSERT_EQ(queue->complete().value().size(), 1u);
  ASSERT_TRUE(files_.sync_data(file).ok());
  EXPECT_EQ(after_crash("f"), (Texts{"abc"}));
}

TEST_F(SimFilesTest, AFolderThatWasNeverSyncedTakesItsFilesWithIt) {
  ASSERT_TRUE(files_.make_directory("d").ok());
  ASSERT_TRUE(write_file_durably(files_, "d/f", "x").ok());
  EXPECT_EQ(after_crash("d/f"), (Texts{"-", "x"}));
}

TEST_F(SimFilesTest, TheRecordingReplaysToTheSameDisk) {
  ASSERT_TRUE(write_file_durably(files_, "before", "0").ok());
  files_.start_recording();
  ASSERT_TRUE(write_file_durably(files_, "a", "1").ok());
  ASSERT_TRUE(files_.rename("a", "b").ok());
  SimDisk disk = files_.recorded_from();
  for (const DiskOp& op : files_.recorded()) disk.apply(op, clock_.wall());
  SimFiles replayed(clock_, disk);
  EXPECT_EQ(read_file(replayed, "b").value(), "1");
  EXPECT_EQ(read_file(replayed, "before").value(), "0");
  EXPECT_FALSE(replayed.stat("a").ok());
}

TEST_F(SimFilesTest, FaultsHitTheOperationAskedFor) {
  const FileHandle file = create("f");
  files_.fail_operations(files_.operations() + 1, 1, EIO);
  EXPECT_TRUE(files_.write_at(file, bytes_of("a"), 0).ok());
  EXPECT_EQ(files_.write_at(file, bytes_of("b"), 1).error().code(), Code::io);
  EXPECT_TRUE(files_.write_at(file, bytes_of("c"), 1).ok());
  files_.fail_reads(files_.reads(), 1, EIO);
  EXPECT_EQ(read_file(files_, "f").error().code(), Code::io);
  EXPECT_EQ(read_file(files_, "f").value(), "ac");
}

TEST_F(SimFilesTest, AFullDiskTakesTheSectorsThatFit) {
  const FileHandle file = create("f");
  files_.set_capacity(1500);
  EXPECT_EQ(files_.write_at(file, bytes_of(std::string(4096, 'x')), 0).error().code(),
            Code::no_space);
  EXPECT_EQ(files_.stat("f")->size, 1024);
  EXPECT_EQ(files_.space(".")->free_bytes, 476);
  EXPECT_TRUE(files_.write_at(file, bytes_of(std::string(1024, 'y')), 0).ok());  // paid for
}

TEST_F(SimFilesTest, ABufferThatChangesInFlightIsCounted) {
  const FileHandle file = create("f");
  auto queue = files_.make_queue(1).value();
  std::string text = "abc";
  ASSERT_TRUE(queue->submit_write(file, bytes_of(text), 0, 1).ok());
  text[0] = 'x';
  ASSERT_TRUE(queue->complete().ok());
  EXPECT_EQ(files_.buffers_changed_in_flight(), 1u);
}

TEST_F(SimFilesTest, DirectTransfersOffTheGridAreRefused) {
  const FileHandle file = files_.open("f", {OpenMode::write_new, true}).value();
  ASSERT_TRUE(file.direct);
  EXPECT_EQ(files_.write_at(file, bytes_of("abc"), 0).error().code(), Code::invalid_argument);
  files_.refuse_direct(true);
  EXPECT_FALSE(files_.open("g", {OpenMode::write_new, true})->direct);
}

TEST_F(SimFilesTest, GarbageIsCollectedButNeverWhatACrashCouldBringBack) {
  ASSERT_TRUE(write_file_durably(files_, "keep", "1").ok());
  for (int i = 0; i < 1000; ++i) {
    ASSERT_TRUE(write_file_durably(files_, "churn", std::to_string(i)).ok());
  }
  EXPECT_LT(files_.disk().inodes(), 300u);
  ASSERT_TRUE(files_.remove("keep").ok());
  EXPECT_EQ(after_crash("keep"), (Texts{"-", "1"}));
}

}  // namespace
}  // namespace muster
