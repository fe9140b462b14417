#include "insight/ledger/run_records.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "sys/real_files.h"
#include "trace/recorder.h"
#include "trace/segment.h"
#include "trace/vocabulary.h"

namespace muster {
namespace {

class RunRecordsTest : public ::testing::Test {
 protected:
  RunRecordsTest() {
    std::string pattern = ::testing::TempDir() + "/run_records_XXXXXX";
    folder_ = mkdtemp(pattern.data());
    files_ = std::make_unique<RealFiles>(folder_);
  }
  ~RunRecordsTest() override { std::filesystem::remove_all(folder_); }

  // A job of one rank that steps three times, as a supervisor and a worker would write it.
  void write_job() {
    EventLog log = EventLog::open(folder_ + "/events.sqlite", clock_).value();
    ASSERT_TRUE(log.append(event_kind::kJobLaunch, {{"ranks", 1}}).ok());
    ASSERT_TRUE(log.append(event_kind::kAttemptPlaced, nlohmann::json::object(), 0).ok());
    Recorder recorder(TraceRegion::create({.rings = 1, .slots = 64}).value());
    auto writer = SegmentWriter::create(*files_, segment_path(0, 0), recorder.region());
    ASSERT_TRUE(writer.ok());
    TraceWriter w = recorder.attach("main");
    const NameId step = recorder.intern(trace_name::kStep);
    const NameId compute = recorder.intern("compute.forward");
    for (int64_t s = 1; s <= 3; ++s) {
      w.step(step, s);
      Span whole(w, step, static_cast<uint64_t>(s));
      Span inner(w, compute, static_cast<uint64_t>(s));
      clock_.sleep_for(std::chrono::microseconds{200});
    }
    ASSERT_TRUE(writer->drain().ok());
    ASSERT_TRUE(log.append(event_kind::kRankExit, {{"exit_code", 0}}, 0, 0).ok());
    ASSERT_TRUE(log.append(event_kind::kJobEnd, {{"succeeded", true}}).ok());
  }

  std::string folder_;
  std::unique_ptr<RealFiles> files_;
  RealClock clock_;
};

TEST_F(RunRecordsTest, ARunDirectoryGivesTheLedgerOfItsJob) {
  write_job();
  const auto records = read_run(*files_, folder_);
  ASSERT_TRUE(records.ok()) << records.error().to_string();
  EXPECT_FALSE(records->live);
  const JobTimeline timeline = newest_timeline(*records, clock_.now()).value();
  EXPECT_TRUE(timeline.problems.empty());
  const Ledger ledger = make_ledger(timeline.ledger);
  EXPECT_EQ(timeline.ledger.lives.at(0).steps.size(), 3u);
  EXPECT_GE(ledger.at(Leaf::step_compute), 3 * 200'000);
  EXPECT_GT(ledger.at(Leaf::init_device), 0);
  EXPECT_EQ(ledger.at(Leaf::rework), 0);
}

TEST_F(RunRecordsTest, ADirectoryInUseIsLive) {
  write_job();
  const auto lock = files_->lock("lock");
  ASSERT_TRUE(lock.ok());
  EXPECT_TRUE(read_run(*files_, folder_).value().live);
}

TEST_F(RunRecordsTest, WhatIsNoRunDirectoryIsToldAndLeftAlone) {
  EXPECT_EQ(read_run(*files_, folder_).error().code(), Code::not_found);
  EXPECT_TRUE(std::filesystem::is_empty(folder_));
  {
    EventLog log = EventLog::open(folder_ + "/events.sqlite", clock_).value();
  }
  const auto empty = read_run(*files_, folder_);
  EXPECT_EQ(empty.error().code(), Code::not_found);
  EXPECT_NE(empty.error().message().find(folder_), std::string::npos);
}

}  // namespace
}  // namespace muster
