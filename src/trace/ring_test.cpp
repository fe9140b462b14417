#include "trace/ring.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <thread>

#include "trace/reader.h"
#include "trace/recorder.h"
#include "trace/trace_data.h"

namespace muster {
namespace {

TraceRegion small_region(uint32_t slots, uint32_t rings) {
  auto region = TraceRegion::create({.rank = 3,
                                     .attempt = 1,
                                     .rings = rings,
                                     .slots = slots,
                                     .names = 8,
                                     .name_bytes = 64,
                                     .source = TickSource::vdso});
  MUSTER_CHECK(region.ok(), region.error().to_string());
  return *std::move(region);
}
TraceRegion second_view(const TraceRegion& region) {
  auto view = TraceRegion::map(region.fd());
  MUSTER_CHECK(view.ok(), view.error().to_string());
  return *std::move(view);
}

TEST(Ring, EveryKindOfRecordIsReadBackAsWritten) {
  Recorder recorder(small_region(64, 2));
  const TraceRegion view = second_view(recorder.region());
  TraceWriter w = recorder.attach("main");
  const NameId name = recorder.intern("work");
  w.step(name, 7);
  const uint32_t serial = w.begin(name, 1, 2);
  w.end(name, serial, 3, 4);
  w.complete(name, 1000, 1500, 5, 6);
  w.counter(name, int64_t{-8});
  w.counter(name, 2.5);
  w.instant(name, 9, 10);
  {
    Span span(w, name, 11, 12);
  }

  const TraceData data = read_region(view);
  EXPECT_EQ(data.rank, 3);
  EXPECT_EQ(data.attempt, 1);
  EXPECT_EQ(data.pid, getpid());
  ASSERT_EQ(data.events.size(), 8u);
  for (const TraceEvent& e : data.events) EXPECT_EQ(data.name_of(e), "work");
  EXPECT_EQ(data.events[0].kind, RecordKind::step);
  EXPECT_EQ(data.events[0].a, 7u);
  EXPECT_EQ(data.events[1].serial, data.events[2].serial);
  EXPECT_EQ(data.events[2].b, 4u);
  EXPECT_EQ(data.events[3].time_ns, 1000);
  EXPECT_EQ(data.events[3].duration_ns, 500);
  EXPECT_EQ(static_cast<int64_t>(data.events[4].a), -8);
  EXPECT_TRUE(data.events[5].flags & kFlagReal);
  EXPECT_EQ(std::bit_cast<double>(data.events[5].a), 2.5);
  EXPECT_EQ(data.events[6].kind, RecordKind::instant);
  EXPECT_EQ(data.events[7].a, 11u);
  EXPECT_GE(data.events[7].time_ns, data.events[6].time_ns);
  ASSERT_EQ(data.threads.size(), 1u);
  EXPECT_EQ(data.threads[0].name, "main");
  EXPECT_EQ(data.threads[0].tid, gettid());
}

TEST(Ring, ALongSpanKeepsItsDurationToThirtyOneBits) {
  const struct {
    uint64_t ticks, want;
  } cases[] = {{0, 0},
               {UINT32_MAX, UINT32_MAX},
               {uint64_t{UINT32_MAX} + 1, uint64_t{UINT32_MAX} + 1},
               {(uint64_t{1} << 40) + 1, uint64_t{1} << 40},
               {uint64_t{1} << 63, uint64_t{UINT32_MAX} << 15}};  // cut
  for (const auto& c : cases) {
    const uint32_t shift = duration_shift(c.ticks);
    EXPECT_EQ(uint64_t{duration_value(c.ticks, shift)} << shift, c.want) << c.ticks;
  }
}

TEST(Ring, ATierThatIsNotWantedCostsNoRecord) {
  Recorder recorder(small_region(64, 1));
  TraceWriter w = recorder.attach("main");
  const NameId name = recorder.intern("kernel");
  w.complete(name, 0, 1, 0, 0, /*flags=*/2);
  recorder.progress().agent.tier_mask = 0b0111;
  w.complete(name, 0, 1, 0, 0, /*flags=*/2);
  EXPECT_EQ(read_region(recorder.region()).events.size(), 1u);
}

TEST(Ring, ASlowReaderLosesTheOldestAndKnowsHowMany) {
  Recorder recorder(small_region(16, 1));
  TraceWriter w = recorder.attach("main");
  RegionReader reader(recorder.region());
  for (uint64_t i = 0; i < 10; ++i) w.instant({1}, i);
  EXPECT_EQ(reader.copy_new().at(0).records.size(), 10u);
  for (uint64_t i = 10; i < 50; ++i) w.instant({1}, i);
  const RingCopy copy = reader.copy_new().at(0);
  // 16 slots hold 34..49; slot of 34 is the one the writer would touch next, so it is not trusted.
  EXPECT_EQ(copy.first_index, 35u);
  EXPECT_EQ(copy.overrun, 25u);
  ASSERT_EQ(copy.records.size(), 15u);
  EXPECT_EQ(copy.records.front().a, 35u);
  EXPECT_EQ(copy.records.back().a, 49u);
  EXPECT_TRUE(reader.copy_new().empty());
}

TEST(Recorder, NamesAreInternedOnceAndAFullTableIsCountedNotFatal) {
  Recorder recorder(small_region(16, 1));
  EXPECT_EQ(recorder.intern("a"), recorder.intern("a"));
  for (char c = 'b'; c <= 'g'; ++c) EXPECT_NE(recorder.intern(std::string(1, c)), NameId{});
  EXPECT_EQ(recorder.intern("one too many"), NameId{});
  EXPECT_EQ(recorder.region().header().names_refused.load(), 1u);
  // Bytes run out, too.
  Recorder narrow(small_region(16, 1));
  EXPECT_EQ(narrow.intern(std::string(65, 'x')), NameId{});
  EXPECT_NE(narrow.intern(std::string(64, 'x')), NameId{});
}

TEST(Recorder, ANewRecorderOnTheSameRegionKeepsTheNames) {
  Recorder first(small_region(16, 1));
  const NameId a = first.intern("a"), b = first.intern("b");
  Recorder second(second_view(first.region()));
  EXPECT_EQ(second.intern("b"), b);
  EXPECT_EQ(second.intern("a"), a);
  EXPECT_EQ(second.intern("c").value, b.value + 1);
}

TEST(Recorder, ThreadsBeyondTheRingsRecordNothingAndAreCounted) {
  Recorder recorder(small_region(16, 1));
  TraceWriter main = recorder.attach("main");
  TraceWriter none;
  std::thread([&] { none = recorder.attach("other"); }).join();
  none.instant({1});
  main.instant({1});
  EXPECT_EQ(read_region(recorder.region()).events.size(), 1u);
  EXPECT_EQ(recorder.region().header().threads_refused.load(), 1u);
}

TEST(Recorder, ShortLivedThreadsOfOneNameShareATrack) {
  Recorder recorder(small_region(16, 2));
  for (int i = 0; i < 5; ++i)
    std::thread([&] {
      TraceWriter w = recorder.attach("writer");
      w.instant({1});
      recorder.detach();
    }).join();
  const TraceData data = read_region(recorder.region());
  EXPECT_EQ(data.events.size(), 5u);
  EXPECT_EQ(data.threads.size(), 1u);
}

TEST(Region, WhatIsNoRegionIsRefused) {
  const int fd = memfd_create("x", MFD_CLOEXEC);
  EXPECT_EQ(TraceRegion::map(fd).error().code(), Code::corrupt);  // empty
  ASSERT_EQ(ftruncate(fd, 1 << 20), 0);
  EXPECT_EQ(TraceRegion::map(fd).error().code(), Code::corrupt);  // zeros
  close(fd);
  EXPECT_FALSE(TraceRegion::map(-1).ok());

  TraceRegion region = small_region(16, 1);
  region.header().rings = 4000;  // more than the memory holds
  EXPECT_EQ(TraceRegion::map(region.fd()).error().code(), Code::corrupt);
  EXPECT_EQ(TraceRegion::create({.slots = 100}).error().code(), Code::invalid_argument);
}

TEST(Region, NobodyCanShrinkItUnderAReader) {
  const TraceRegion region = small_region(16, 1);
  EXPECT_NE(ftruncate(region.fd(), 0), 0);
}

// A child records numbered events until it is killed in the middle of it.
TEST(Region, EveryCompletedRecordSurvivesSigkill) {
  const uint32_t slots = 1u << 16;
  TraceRegion region = small_region(slots, 1);
  const pid_t child = fork();
  if (child == 0) {
    Recorder recorder(second_view(region));
    const NameId name = recorder.intern("n");
    TraceWriter w = recorder.attach("main");
    for (uint64_t i = 0;; ++i) w.complete(name, i, 2 * i, i, ~i);
  }
  const std::atomic<uint64_t>& head = region.ring(0).head;
  const auto give_up = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  while (head.load() < 3 * uint64_t{slots} && std::chrono::steady_clock::now() < give_up)
    std::this_thread::yield();
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);

  const uint64_t written = head.load();
  ASSERT_GE(written, 3 * uint64_t{slots});
  const TraceData data = read_region(region);
  ASSERT_EQ(data.events.size(), slots - 1);
  EXPECT_EQ(data.overrun, written - slots + 1);
  for (size_t i = 0; i < data.events.size(); ++i) {
    const uint64_t number = written - slots + 1 + i;
    ASSERT_EQ(data.events[i].a, number);
    ASSERT_EQ(data.events[i].b, ~number);
    ASSERT_EQ(data.events[i].time_ns, static_cast<int64_t>(number));
  }
  EXPECT_EQ(data.name_of(data.events[0]), "n");
}

// Two writers at full speed, a reader that takes what it can: no torn record, none invented, and
// every one is either read or counted as lost.
TEST(Ring, TwoWritersAndAReaderNeverSeeATornRecord) {
  Recorder recorder(small_region(256, 2));
  constexpr uint64_t kRecords = 200'000;
  auto write_all = [&](uint64_t salt, const char* name) {
    TraceWriter w = recorder.attach(name);
    for (uint64_t i = 0; i < kRecords; ++i)
      w.raw({.t = i ^ salt,
             .v = static_cast<uint32_t>(i),
             .name = 1,
             .kind_shift = static_cast<uint8_t>(RecordKind::begin),
             .a = i * 3,
             .b = ~i});
  };
  std::atomic<int> running{2};
  std::thread one([&] { write_all(0, "one"), --running; });
  std::thread two([&] { write_all(1u << 30, "two"), --running; });

  RegionReader reader(recorder.region());
  uint64_t read = 0, lost = 0;
  uint64_t expected_index[2] = {0, 0};
  for (bool last = false; !last;) {
    last = running.load() == 0;
    for (const RingCopy& copy : reader.copy_new()) {
      const uint64_t salt = reader.threads()[copy.ring].name == "one" ? 0 : 1u << 30;
      ASSERT_EQ(copy.first_index, expected_index[copy.ring] + copy.overrun);
      for (size_t k = 0; k < copy.records.size(); ++k) {
        const Record& r = copy.records[k];
        const uint64_t i = copy.first_index + k;
        ASSERT_EQ(r.t, i ^ salt);
        ASSERT_EQ(r.v, static_cast<uint32_t>(i));
        ASSERT_EQ(r.a, i * 3);
        ASSERT_EQ(r.b, ~i);
      }
      expected_index[copy.ring] = copy.first_index + copy.records.size();
      read += copy.records.size();
      lost += copy.overrun;
    }
  }
  one.join();
  two.join();
  EXPECT_EQ(read + lost, 2 * kRecords);
  EXPECT_GT(read, 0u);
}

TEST(ProgressPage, TheSupervisorSeesWhatTheWorkerDoesAndCommandsArriveOnce) {
  TraceRegion region = small_region(16, 1);
  const TraceRegion view = second_view(region);
  SimClock clock(std::chrono::seconds{10});
  ProgressWriter worker(region.progress(), clock);
  EXPECT_EQ(read_progress(view.progress()).last.count(), 0);

  worker.enter(Phase::restore, std::chrono::seconds{30});
  EXPECT_EQ(read_progress(view.progress()).phase, Phase::restore);
  EXPECT_EQ(read_progress(view.progress()).long_until, std::chrono::seconds{40});

  clock.advance(std::chrono::seconds{5});
  worker.begin_step(4);
  worker.end_step(2.25, 1000);
  const ProgressSnapshot s = read_progress(view.progress());
  EXPECT_EQ(s.step, 4);
  EXPECT_EQ(s.last, std::chrono::seconds{15});
  EXPECT_EQ(s.long_until.count(), 0);
  EXPECT_EQ(s.loss, 2.25);
  EXPECT_EQ(s.tokens, 1000u);
  EXPECT_EQ(s.ops, 3u);
  EXPECT_FALSE(s.waiting);
  worker.wait_for_others(true);
  EXPECT_TRUE(read_progress(view.progress()).waiting);
  worker.wait_for_others(false);
  EXPECT_FALSE(read_progress(view.progress()).waiting);
}

}  // namespace
}  // namespace muster
