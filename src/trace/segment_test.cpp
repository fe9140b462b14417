#include "trace/segment.h"

#include <gtest/gtest.h>

#include "sys/sim_files.h"
#include "trace/recorder.h"
#include "trace/segment_block.h"
#include "trace/varint.h"

namespace muster {
namespace {

Recorder make_recorder(uint32_t slots) {
  auto region = TraceRegion::create(
      {.rank = 1, .attempt = 2, .rings = 4, .slots = slots, .source = TickSource::vdso});
  MUSTER_CHECK(region.ok(), region.error().to_string());
  return Recorder(*std::move(region));
}

void expect_same_event(const TraceEvent& x, const TraceEvent& y) {
  EXPECT_EQ(x.kind, y.kind);
  EXPECT_EQ(x.name, y.name);
  EXPECT_EQ(x.ring, y.ring);
  EXPECT_EQ(x.serial, y.serial);
  EXPECT_EQ(x.time_ns, y.time_ns);
  EXPECT_EQ(x.duration_ns, y.duration_ns);
  EXPECT_EQ(x.a, y.a);
  EXPECT_EQ(x.b, y.b);
}

class SegmentTest : public ::testing::Test {
 protected:
  SimClock clock_;
  SimFiles files_{clock_};
  Recorder recorder_ = make_recorder(1024);
  const std::string path_ = segment_path(2, 1);

  std::string bytes() { return read_file(files_, path_).value(); }
};

TEST(Varint, RoundTripsAndRefusesWhatIsCutOrTooLong) {
  for (const uint64_t v : {uint64_t{0}, uint64_t{127}, uint64_t{128}, UINT64_MAX}) {
    std::string out;
    put_varint(out, v);
    std::string_view in = out;
    EXPECT_EQ(take_varint(in), v);
    EXPECT_TRUE(in.empty());
    std::string_view cut = std::string_view(out).substr(0, out.size() - 1);
    EXPECT_EQ(take_varint(cut), std::nullopt);
  }
  std::string_view too_long = "\xff\xff\xff\xff\xff\xff\xff\xff\xff\x02";
  EXPECT_EQ(take_varint(too_long), std::nullopt);
  for (const int64_t v : {int64_t{0}, int64_t{-1}, INT64_MIN, INT64_MAX})
    EXPECT_EQ(unzigzag(zigzag(v)), v);
}

TEST_F(SegmentTest, ManyDrainsGiveWhatOneLargeRingWouldHold) {
  auto writer = SegmentWriter::create(files_, path_, recorder_.region());
  ASSERT_TRUE(writer.ok()) << writer.error().to_string();
  TraceWriter w = recorder_.attach("main");
  uint64_t written = 0;
  for (int round = 0; round < 20; ++round) {
    const NameId name = recorder_.intern("round." + std::to_string(round));  // names come late
    for (int i = 0; i < 500; ++i, ++written)
      w.complete(name, written * 10, written * 10 + 5, written);
    const auto report = writer->drain();
    ASSERT_TRUE(report.ok());
    EXPECT_EQ(report->records, 500u);
    EXPECT_EQ(report->overrun, 0u);
  }
  const TraceData data = read_segment(files_, path_).value();
  EXPECT_EQ(data.rank, 1);
  EXPECT_EQ(data.attempt, 2);
  EXPECT_EQ(data.skipped_bytes, 0u);
  EXPECT_EQ(data.overrun, 0u);
  ASSERT_EQ(data.events.size(), written);
  for (uint64_t i = 0; i < written; ++i) {
    ASSERT_EQ(data.events[i].a, i);
    ASSERT_EQ(data.events[i].time_ns, static_cast<int64_t>(i * 10));
    ASSERT_EQ(data.events[i].duration_ns, 5);
    ASSERT_EQ(data.name_of(data.events[i]), "round." + std::to_string(i / 500));
  }
  ASSERT_EQ(data.threads.size(), 1u);
  EXPECT_EQ(data.threads[0].name, "main");
  EXPECT_LT(bytes().size(), written * 5);  // bytes an event
}

TEST_F(SegmentTest, WhatARingLostIsCounted) {
  auto writer = SegmentWriter::create(files_, path_, recorder_.region());
  TraceWriter w = recorder_.attach("main");
  for (int i = 0; i < 5000; ++i) w.instant({1}, static_cast<uint64_t>(i));
  EXPECT_EQ(writer->drain().value().overrun, 5000u - 1023u);
  const TraceData data = read_segment(files_, path_).value();
  EXPECT_EQ(data.overrun, 5000u - 1023u);
  EXPECT_EQ(data.events.size(), 1023u);
}

TEST_F(SegmentTest, EveryPrefixOfAFileIsReadAsFarAsItGoes) {
  auto writer = SegmentWriter::create(files_, path_, recorder_.region());
  TraceWriter w = recorder_.attach("main");
  for (int round = 0; round < 5; ++round) {
    for (uint64_t i = 0; i < 50; ++i) w.instant(recorder_.intern("x"), i);
    ASSERT_TRUE(writer->drain().ok());
  }
  const std::string whole = bytes();
  const TraceData all = parse_segment(whole).value();
  size_t before = 0;
  for (size_t length = 0; length <= whole.size(); ++length) {
    const auto part = parse_segment(std::string_view(whole).substr(0, length));
    if (!part.ok()) {
      EXPECT_EQ(before, 0u);
      continue;
    }
    EXPECT_GE(part->events.size(), before);
    EXPECT_EQ(part->events.size() % 50, 0u);
    before = part->events.size();
    for (size_t i = 0; i < part->events.size(); i += 17)
      expect_same_event(part->events[i], all.events[i]);
  }
  EXPECT_EQ(before, 250u);
}

TEST_F(SegmentTest, ADamagedBlockIsPassedOverAndCounted) {
  auto writer = SegmentWriter::create(files_, path_, recorder_.region());
  TraceWriter w = recorder_.attach("main");
  for (int round = 0; round < 3; ++round) {
    for (uint64_t i = 0; i < 100; ++i) w.instant(recorder_.intern("x"), i);
    ASSERT_TRUE(writer->drain().ok());
  }
  const std::string whole = bytes();
  for (size_t at = 0; at < whole.size(); ++at) {
    std::string damaged = whole;
    damaged[at] = static_cast<char>(damaged[at] ^ 0x20);
    const auto data = parse_segment(damaged);
    ASSERT_TRUE(data.ok());
    EXPECT_GT(data->skipped_bytes, 0u) << at;  // every byte is covered by a check
    EXPECT_GE(data->events.size(), 200u);
  }
}

TEST_F(SegmentTest, AfterAFullDiskNothingIsLostAndNothingDoubled) {
  auto writer = SegmentWriter::create(files_, path_, recorder_.region());
  TraceWriter w = recorder_.attach("main");
  const NameId name = recorder_.intern("x");
  for (uint64_t i = 0; i < 100; ++i) w.instant(name, i);
  ASSERT_TRUE(writer->drain().ok());
  for (uint64_t i = 100; i < 200; ++i) w.instant(name, i);
  files_.fail_operations(files_.operations(), 1, ENOSPC);
  EXPECT_EQ(writer->drain().error().code(), Code::no_space);
  for (uint64_t i = 200; i < 300; ++i) w.instant(name, i);
  ASSERT_TRUE(writer->drain().ok());
  const TraceData data = read_segment(files_, path_).value();
  ASSERT_EQ(data.events.size(), 300u);
  for (uint64_t i = 0; i < 300; ++i) EXPECT_EQ(data.events[i].a, i);
}

TEST_F(SegmentTest, BlocksThatRepeatAreReadOnce) {
  const RingCopy copy{.ring = 0, .first_index = 0, .records = std::vector<Record>(10)};
  RingCopy more{.ring = 0, .first_index = 5, .records = std::vector<Record>(10)};
  const std::string file =
      records_block(copy) + records_block(copy) + records_block(more) + records_block(copy);
  EXPECT_EQ(parse_segment(file).value().events.size(), 15u);
}

TEST(Segment, WhatIsNoSegmentIsRefused) {
  EXPECT_EQ(parse_segment("").error().code(), Code::corrupt);
  EXPECT_EQ(parse_segment(std::string(1000, 'M')).error().code(), Code::corrupt);
}

TEST(Segment, ABlockThatClaimsMoreThanItHoldsIsDamageNotMemory) {
  std::string payload;
  put_varint(payload, 0);
  put_varint(payload, 0);
  put_varint(payload, 0);
  put_varint(payload, uint64_t{1} << 60);  // records
  const std::string file = names_block(1, {"x"}) + make_block(BlockKind::records, payload);
  const TraceData data = parse_segment(file).value();
  EXPECT_TRUE(data.events.empty());
  EXPECT_GT(data.skipped_bytes, 0u);
}

TEST_F(SegmentTest, ARunIsReadByAttemptAndRankWithItsProblems) {
  TraceWriter w = recorder_.attach("main");
  w.instant(recorder_.intern("x"));
  for (const auto& [attempt, rank] : {std::pair{0, 10}, {0, 2}, {1, 0}}) {
    auto writer = SegmentWriter::create(files_, segment_path(attempt, rank), recorder_.region());
    ASSERT_TRUE(writer.ok());
    ASSERT_TRUE(writer->drain().ok());
  }
  ASSERT_TRUE(write_file_durably(files_, "trace/attempt-1/rank-1.seg", "junk").ok());
  ASSERT_TRUE(write_file_durably(files_, "trace/attempt-1/notes.txt", "not ours").ok());
  std::vector<std::string> problems;
  const auto all = read_segments(files_, problems).value();
  ASSERT_EQ(all.size(), 3u);
  EXPECT_EQ(all[0].rank, 2);
  EXPECT_EQ(all[1].rank, 10);
  EXPECT_EQ(all[2].attempt, 1);
  ASSERT_EQ(problems.size(), 1u);
  EXPECT_NE(problems[0].find("rank-1.seg"), std::string::npos);
}

TEST_F(SegmentTest, ARunWithoutTraceIsEmpty) {
  std::vector<std::string> problems;
  EXPECT_TRUE(read_segments(files_, problems).value().empty());
}

}  // namespace
}  // namespace muster
