// What every Files must do, run against the real file system (both queue engines) and the simulated
// one.
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/stat.h>

#include <array>
#include <cstring>
#include <functional>

#include "sys/real_files.h"
#include "sys/sim_files.h"

namespace muster {
namespace {

struct World {
  SimClock clock;
  std::unique_ptr<Files> files;
  std::string temporary;  // of the real ones
  ~World() {
    files.reset();
    if (!temporary.empty()) {
      RealFiles real("");
      EXPECT_TRUE(remove_tree(real, temporary).ok());
    }
  }
};

std::unique_ptr<World> real_world(IoEngine engine) {
  auto world = std::make_unique<World>();
  char pattern[] = "/var/tmp/muster-files-XXXXXX";
  MUSTER_CHECK(mkdtemp(pattern) != nullptr);
  world->temporary = pattern;
  world->files = std::make_unique<RealFiles>(pattern, engine);
  return world;
}
std::unique_ptr<World> sim_world() {
  auto world = std::make_unique<World>();
  world->files = std::make_unique<SimFiles>(world->clock);
  return world;
}

struct Kind {
  const char* name;
  std::unique_ptr<World> (*make)();
};

class FilesContract : public testing::TestWithParam<Kind> {
 protected:
  std::unique_ptr<World> world_ = GetParam().make();
  Files& files_ = *world_->files;

  void write(std::string_view path, std::string_view text) {
    const FileHandle file = files_.open(path, {OpenMode::write_truncate, false}).value();
    ASSERT_TRUE(files_.write_at(file, std::as_bytes(std::span(text)), 0).ok());
    ASSERT_TRUE(files_.close(file).ok());
  }
  static Code code_of(const auto& result) {
    return result.ok() ? Code::internal : result.error().code();
  }
};

INSTANTIATE_TEST_SUITE_P(
    , FilesContract,
    testing::Values(Kind{"Real", [] { return real_world(IoEngine::automatic); }},
                    Kind{"RealThreads", [] { return real_world(IoEngine::threads); }},
                    Kind{"Sim", sim_world}),
    [](const auto& kind) { return kind.param.name; });

TEST_P(FilesContract, WhatWasWrittenIsRead) {
  write("a.txt", "one two");
  EXPECT_EQ(read_file(files_, "a.txt").value(), "one two");
  EXPECT_EQ(files_.stat("a.txt")->size, 7);
  EXPECT_EQ(files_.stat("a.txt")->kind, FileKind::regular);
}

TEST_P(FilesContract, OpenModesKeepTheirPromises) {
  EXPECT_EQ(code_of(files_.open("x", {OpenMode::read, false})), Code::not_found);
  EXPECT_EQ(code_of(files_.open("x", {OpenMode::write_existing, false})), Code::not_found);
  const FileHandle made = files_.open("x", {OpenMode::write_new, false}).value();
  EXPECT_TRUE(files_.close(made).ok());
  EXPECT_EQ(code_of(files_.open("x", {OpenMode::write_new, false})), Code::already_exists);

  for (const char* line : {"first ", "second"}) {
    const FileHandle log = files_.open("log", {OpenMode::append, false}).value();
    EXPECT_TRUE(files_.append(log, std::as_bytes(std::span(line, 6))).ok());
    EXPECT_TRUE(files_.close(log).ok());
  }
  EXPECT_EQ(read_file(files_, "log").value(), "first second");

  const FileHandle again = files_.open("log", {OpenMode::write_existing, false}).value();
  EXPECT_TRUE(files_.write_at(again, std::as_bytes(std::span("F", 1)), 0).ok());
  EXPECT_TRUE(files_.truncate(again, 5).ok());
  EXPECT_EQ(files_.size(again).value(), 5);
  EXPECT_TRUE(files_.sync_data(again).ok());
  EXPECT_TRUE(files_.sync_file(again).ok());
  EXPECT_TRUE(files_.close(again).ok());
  EXPECT_EQ(read_file(files_, "log").value(), "First");
}

TEST_P(FilesContract, ErrorsNameThePath) {
  for (const auto& error :
       {files_.open("no/such", {OpenMode::read, false}).error(), files_.stat("no/such").error(),
        files_.rename("no/such", "b").error(), files_.remove("no/such").error()}) {
    EXPECT_EQ(error.code(), Code::not_found) << error.to_string();
    EXPECT_NE(error.to_string().find("no/such"), std::string::npos) << error.to_string();
  }
  EXPECT_EQ(code_of(read_file(files_, ".")), Code::invalid_argument);
}

TEST_P(FilesContract, FoldersAreListedInOrderAndRemovedWithAllTheyHold) {
  ASSERT_TRUE(make_directories(files_, "a/b/c").ok());
  ASSERT_TRUE(make_directories(files_, "a/b/c").ok());  // again is fine
  EXPECT_EQ(code_of(files_.make_directory("a")), Code::already_exists);
  write("a/z", "");
  write("a/k", "");
  std::string names;
  const auto entries = files_.list("a").value();
  for (const DirectoryEntry& entry : entries)
    names += entry.name + (entry.kind == FileKind::directory ? "/ " : " ");
  EXPECT_EQ(names, "b/ k z ");
  EXPECT_FALSE(files_.remove("a").ok());  // not empty
  EXPECT_TRUE(remove_tree(files_, "a").ok());
  EXPECT_TRUE(remove_tree(files_, "a").ok());  // gone is fine
  EXPECT_EQ(code_of(files_.stat("a")), Code::not_found);
}

TEST_P(FilesContract, MakeDirectoriesRefusesAFileInTheWay) {
  write("f", "");
  EXPECT_EQ(code_of(make_directories(files_, "f")), Code::already_exists);
}

TEST_P(FilesContract, RenameReplacesAFileAndMovesAFolder) {
  write("old", "old");
  write("new", "new");
  EXPECT_TRUE(files_.rename("new", "old").ok());
  EXPECT_EQ(read_file(files_, "old").value(), "new");
  ASSERT_TRUE(make_directories(files_, "dir.tmp/in").ok());
  EXPECT_TRUE(files_.rename("dir.tmp", "dir").ok());
  EXPECT_EQ(files_.stat("dir/in")->kind, FileKind::directory);
  ASSERT_TRUE(make_directories(files_, "other.tmp").ok());
  EXPECT_FALSE(files_.rename("other.tmp", "dir").ok());  // not empty
}

TEST_P(FilesContract, DurableWriteLeavesNoTemporary) {
  ASSERT_TRUE(write_file_durably(files_, "state.json", "1").ok());
  ASSERT_TRUE(write_file_durably(files_, "state.json", "22").ok());
  EXPECT_EQ(read_file(files_, "state.json").value(), "22");
  EXPECT_EQ(files_.list(".")->size(), 1u);
}

TEST_P(FilesContract, ALockHasOneHolder) {
  EXPECT_FALSE(files_.is_locked("lock").value());
  EXPECT_FALSE(files_.stat("lock").ok());  // asking makes nothing
  auto first = files_.lock("lock");
  ASSERT_TRUE(first.ok());
  EXPECT_TRUE(files_.is_locked("lock").value());
  EXPECT_EQ(code_of(files_.lock("lock")), Code::busy);
  first.value().reset();
  EXPECT_FALSE(files_.is_locked("lock").value());
  EXPECT_TRUE(files_.lock("lock").ok());
}

TEST_P(FilesContract, SpaceIsToldForAFolder) {
  const DiskSpace space = files_.space(".").value();
  EXPECT_GT(space.total_bytes, 0);
  EXPECT_LE(space.free_bytes, space.total_bytes);
}

TEST_P(FilesContract, AQueueMovesManyBlocksBothWays) {
  constexpr size_t kBlocks = 20, kBlock = 2 * kDirectAlignment;
  struct Free {
    void operator()(std::byte* p) const { ::free(p); }
  };
  std::unique_ptr<std::byte, Free> memory(
      static_cast<std::byte*>(aligned_alloc(kDirectAlignment, kBlocks * kBlock)));
  const std::span<std::byte> all(memory.get(), kBlocks * kBlock);
  for (size_t i = 0; i < all.size(); ++i) all[i] = static_cast<std::byte>(i * 7 + i / kBlock);
  const std::vector<std::byte> wanted(all.begin(), all.end());

  auto queue = files_.make_queue(4).value();
  EXPECT_TRUE(queue->complete()->empty());  // nothing in flight: no wait
  const auto move_all = [&](FileHandle file, bool write) {
    std::vector<bool> seen(kBlocks);
    size_t submitted = 0, done = 0;
    while (done < kBlocks) {
      while (submitted < kBlocks && queue->in_flight() < 4) {
        const auto piece = all.subspan(submitted * kBlock, kBlock);
        const auto offset = static_cast<int64_t>(submitted * kBlock);
        ASSERT_TRUE((write ? queue->submit_write(file, piece, offset, submitted)
                           : queue->submit_read(file, piece, offset, submitted))
                        .ok());
        ++submitted;
      }
      const auto completions = queue->complete().value();
      for (const auto& completion : completions) {
        ASSERT_EQ(completion.transferred.value(), kBlock);
        ASSERT_FALSE(seen.at(completion.token));
        seen[completion.token] = true;
        ++done;
      }
    }
  };
  const FileHandle out = files_.open("data", {OpenMode::write_new, true}).value();
  move_all(out, true);
  ASSERT_TRUE(files_.close(out).ok());
  std::fill(all.begin(), all.end(), std::byte{0});
  const FileHandle in = files_.open("data", {OpenMode::read, true}).value();
  move_all(in, false);
  ASSERT_TRUE(files_.close(in).ok());
  EXPECT_TRUE(std::equal(all.begin(), all.end(), wanted.begin()));
}

TEST_P(FilesContract, AFullQueueIsBusyAndABadTransferIsACompletion) {
  write("data", "12345678");
  auto queue = files_.make_queue(1).value();
  std::array<std::byte, 8> buffer;
  const FileHandle file = files_.open("data", {OpenMode::read, false}).value();
  ASSERT_TRUE(queue->submit_read(file, buffer, 0, 1).ok());
  EXPECT_EQ(code_of(queue->submit_read(file, buffer, 0, 2)), Code::busy);
  EXPECT_EQ(queue->complete().value().at(0).transferred.value(), 8u);
  ASSERT_TRUE(queue->submit_write(file, buffer, 0, 3).ok());  // opened for reading
  EXPECT_FALSE(queue->complete().value().at(0).transferred.ok());
  EXPECT_TRUE(files_.close(file).ok());
}

TEST(RealFiles, ARootIsNotLeft) {
  RealFiles files("/proc");
  EXPECT_EQ(files.open("../etc/hostname", {OpenMode::read, false}).error().code(),
            Code::invalid_argument);
  EXPECT_TRUE(read_file(files, "self/stat").ok());  // a file whose size reads as 0
  EXPECT_TRUE(read_file(files, "/self/stat").ok());
}

TEST(RealFiles, AFifoIsNotWaitedFor) {
  const auto world = real_world(IoEngine::threads);
  const std::string path = world->temporary + "/fifo";
  ASSERT_EQ(mkfifo(path.c_str(), 0600), 0);
  EXPECT_FALSE(read_file(*world->files, "fifo").ok());
}

TEST(RealFiles, TheEngineSaysWhyItIsNotIoUring) {
  RealFiles forced("", IoEngine::threads);
  EXPECT_EQ(forced.make_queue(2).value()->engine(), "threads: asked for");
  RealFiles automatic("");
  const std::string engine(automatic.make_queue(2).value()->engine());
  EXPECT_TRUE(engine == "io_uring" || engine.starts_with("threads: io_uring")) << engine;
}

TEST(FilePaths, JoinAndParent) {
  EXPECT_EQ(join_path("a", "b"), "a/b");
  EXPECT_EQ(join_path("a/", "b"), "a/b");
  EXPECT_EQ(join_path("", "b"), "b");
  EXPECT_EQ(join_path("/", "b"), "/b");
  EXPECT_EQ(parent_path("a/b"), "a");
  EXPECT_EQ(parent_path("a/b/"), "a");
  EXPECT_EQ(parent_path("b"), ".");
  EXPECT_EQ(parent_path("/b"), "/");
}

}  // namespace
}  // namespace muster
