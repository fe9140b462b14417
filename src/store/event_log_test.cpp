#include "store/event_log.h"

#include <gtest/gtest.h>
#include <sqlite3.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>

namespace muster {
namespace {

using std::chrono::seconds;

class EventLogTest : public ::testing::Test {
 protected:
  EventLogTest() {
    std::string pattern = ::testing::TempDir() + "/event_log_XXXXXX";
    folder_ = mkdtemp(pattern.data());
    path_ = folder_ + "/events.sqlite";
  }
  ~EventLogTest() override { std::filesystem::remove_all(folder_); }
  EventLog opened() {
    auto log = EventLog::open(path_, clock_);
    MUSTER_CHECK(log.ok(), log.error().to_string());
    return *std::move(log);
  }
  std::string folder_, path_;
  SimClock clock_{seconds{100}};
};

TEST_F(EventLogTest, KeepsWhatWasAppendedInOrderWithItsTimes) {
  EventLog log = opened();
  EXPECT_EQ(log.append("job.launch", {{"ranks", 2}}).value(), 1);
  clock_.advance(seconds{3});
  EXPECT_EQ(log.append("rank.exit", {{"signal", 9}}, 0, 1).value(), 2);

  const std::vector<Event> events = log.query({}).value();
  ASSERT_EQ(events.size(), 2u);
  EXPECT_EQ(events[0].kind, "job.launch");
  EXPECT_EQ(events[0].payload["ranks"], 2);
  EXPECT_EQ(events[0].attempt, -1);
  EXPECT_EQ(events[0].monotonic, seconds{100});
  EXPECT_EQ(events[1].monotonic, seconds{103});
  EXPECT_EQ(events[1].wall, clock_.wall());
  EXPECT_EQ(events[1].rank, 1);
}

TEST_F(EventLogTest, AnEventMayCarryItsOwnTimes) {
  EventLog log = opened();
  Event late{.wall = Nanos{5}, .monotonic = Nanos{7}, .attempt = 2, .rank = 3, .kind = "x"};
  ASSERT_TRUE(log.append(late).ok());
  const Event read = log.query({}).value().at(0);
  EXPECT_EQ(read.wall, Nanos{5});
  EXPECT_EQ(read.monotonic, Nanos{7});
  EXPECT_TRUE(read.payload.is_object());
}

TEST_F(EventLogTest, QueriesByKindAttemptRankAndPosition) {
  EventLog log = opened();
  for (int i = 0; i < 10; ++i)
    ASSERT_TRUE(log.append(i % 2 == 0 ? "even" : "odd", {{"i", i}}, i / 5, i % 3).ok());
  EXPECT_EQ(log.query({.kind = "even"}).value().size(), 5u);
  EXPECT_EQ(log.query({.attempt = 1}).value().size(), 5u);
  EXPECT_EQ(log.query({.kind = "even", .attempt = 1, .rank = 0}).value().size(), 1u);  // i = 6
  EXPECT_EQ(log.query({.after_id = 8}).value().size(), 2u);
  EXPECT_TRUE(log.query({.kind = "never"}).value().empty());
}

TEST_F(EventLogTest, PayloadTextMayHoldAnyBytes) {
  EventLog log = opened();
  ASSERT_TRUE(log.append("rank.exit", {{"line", std::string("caf\xE9 \x01 '\";--")}}).ok());
  const std::string line = log.query({}).value().at(0).payload["line"];
  EXPECT_EQ(line, "caf\xEF\xBF\xBD \x01 '\";--");  // the stray byte became U+FFFD
}

TEST_F(EventLogTest, IsReadWhileItIsWritten) {
  EventLog log = opened();
  ASSERT_TRUE(log.append("a", {}).ok());
  auto reader = EventLog::open_read_only(path_);
  ASSERT_TRUE(reader.ok()) << reader.error().to_string();
  EXPECT_EQ(reader->query({}).value().size(), 1u);
  ASSERT_TRUE(log.append("b", {}).ok());
  EXPECT_EQ(reader->query({.after_id = 1}).value().size(), 1u);
}

// A mounted archive: no room for the WAL index. As another user, since root may write everywhere.
TEST_F(EventLogTest, IsReadInAFolderThatCannotBeWrittenWhateverItsName) {
  const std::string archive = folder_ + "/100% of run #3? a b";
  ASSERT_TRUE(std::filesystem::create_directory(archive));
  path_ = archive + "/events.sqlite";
  {
    ASSERT_TRUE(opened().append("a", {}).ok());
  }  // closing moves the WAL into the file
  using std::filesystem::perms;
  constexpr perms kRead = perms::owner_read | perms::group_read | perms::others_read;
  constexpr perms kEnter = perms::owner_exec | perms::group_exec | perms::others_exec;
  std::filesystem::permissions(path_, kRead);
  std::filesystem::permissions(archive, kRead | kEnter);
  std::filesystem::permissions(folder_, kRead | kEnter | perms::owner_write);
  const pid_t child = fork();
  if (child == 0) {
    if (geteuid() == 0 && setuid(65534) != 0) _exit(3);
    const auto log = EventLog::open_read_only(path_);
    if (!log.ok()) fprintf(stderr, "%s\n", log.error().to_string().c_str());
    _exit(!log.ok() ? 1 : log->query({}).value().size() == 1 ? 0 : 2);
  }
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  std::filesystem::permissions(archive, perms::owner_all);
}

TEST_F(EventLogTest, GoesOnWhereAKilledWriterStopped) {
  int ready[2];
  ASSERT_EQ(pipe(ready), 0);
  const pid_t child = fork();
  if (child == 0) {
    EventLog log = opened();
    for (int i = 0; i < 20; ++i) (void)log.append("x", {{"i", i}});
    (void)!write(ready[1], "r", 1);
    for (;;) pause();
  }
  char c;
  ASSERT_EQ(read(ready[0], &c, 1), 1);
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  close(ready[0]);
  close(ready[1]);

  EXPECT_EQ(EventLog::open_read_only(path_).value().query({}).value().size(), 20u);
  EventLog log = opened();
  EXPECT_EQ(log.append("y", {}).value(), 21);
}

TEST_F(EventLogTest, AMissingFileIsNotCreatedByAReader) {
  const auto reader = EventLog::open_read_only(path_);
  ASSERT_FALSE(reader.ok());
  EXPECT_EQ(reader.error().code(), Code::not_found);
  EXPECT_FALSE(std::filesystem::exists(path_));
}

TEST_F(EventLogTest, WhatIsNoEventLogIsRefusedByName) {
  const struct {
    const char* name;
    void (*damage)(const std::string& path);
  } cases[] = {
      {"text", [](const std::string& p) { std::ofstream(p) << std::string(5000, 'x'); }},
      {"another program's database",
       [](const std::string& p) {
         sqlite3* db;
         sqlite3_open(p.c_str(), &db);
         sqlite3_exec(db, "CREATE TABLE t(x)", nullptr, nullptr, nullptr);
         sqlite3_close(db);
       }},
  };
  for (const auto& c : cases) {
    SCOPED_TRACE(c.name);
    std::filesystem::remove(path_);
    c.damage(path_);
    const auto written = EventLog::open(path_, clock_);
    ASSERT_FALSE(written.ok());
    EXPECT_EQ(written.error().code(), Code::corrupt) << written.error().to_string();
    EXPECT_NE(written.error().to_string().find(path_), std::string::npos);
    const auto read = EventLog::open_read_only(path_);
    ASSERT_FALSE(read.ok());
    EXPECT_EQ(read.error().code(), Code::corrupt) << read.error().to_string();
  }
}

TEST_F(EventLogTest, DamagedPagesAreReportedNotReadAsEvents) {
  {
    EventLog log = opened();
    for (int i = 0; i < 2000; ++i) ASSERT_TRUE(log.append("kind", {{"i", i}}).ok());
  }  // closing moves the WAL into the file
  const auto size = std::filesystem::file_size(path_);
  {
    std::fstream f(path_, std::ios::in | std::ios::out | std::ios::binary);
    for (size_t at = 4096; at + 64 < size; at += 4096) {
      f.seekp(static_cast<long>(at));
      f << std::string(64, '\xFF');
    }
  }
  auto reader = EventLog::open_read_only(path_);
  if (reader.ok()) {
    const auto events = reader->query({});
    ASSERT_FALSE(events.ok());
    EXPECT_EQ(events.error().code(), Code::corrupt);
  } else {
    EXPECT_EQ(reader.error().code(), Code::corrupt) << reader.error().to_string();
  }
}

}  // namespace
}  // namespace muster
