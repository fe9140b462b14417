#include "insight/export/perfetto.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "base/philox.h"
#include "insight/export/lanes.h"
#include "insight/export/protobuf_writer.h"

namespace muster {
namespace {

TEST(ProtobufWriter, WritesFieldsAsTheEncodingSays) {
  ProtobufWriter inner, w;
  inner.uint(1, 150);
  EXPECT_EQ(inner.bytes(), std::string("\x08\x96\x01", 3));
  w.text(2, "testing");
  EXPECT_EQ(w.bytes(), "\x12\x07testing");
  w.clear();
  w.message(3, inner);
  EXPECT_EQ(w.bytes(), std::string("\x1a\x03\x08\x96\x01", 5));
  w.clear();
  w.integer(1, -1);
  EXPECT_EQ(w.bytes(), std::string("\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", 11));
  w.clear();
  w.real(1, 1.0);
  EXPECT_EQ(w.bytes(), std::string("\x09\0\0\0\0\0\0\xf0\x3f", 9));
}

TEST(Lanes, NestedSlicesShareALaneCrossingOnesDoNot) {
  // 0: 0-100, 1 within it, 2 crosses 0, 3 after all, 4 empty at the edge of 1.
  const auto lanes =
      lay_on_lanes({{0, 100, 0}, {10, 20, 1}, {50, 150, 2}, {150, 160, 3}, {20, 20, 4}});
  ASSERT_EQ(lanes.size(), 2u);
  EXPECT_EQ(lanes[0].size(), 8u);
  EXPECT_EQ(lanes[1].size(), 2u);
  EXPECT_EQ(lanes[1][0].source, 2u);
}

TEST(Lanes, RandomSlicesAreAllThereAndNest) {
  for (uint64_t seed = 0; seed < 200; ++seed) {
    std::vector<Slice> slices;
    const uint64_t n = philox_below(60, seed, 0, 0);
    for (uint64_t i = 0; i < n; ++i) {
      const auto begin = static_cast<int64_t>(philox_below(100, seed, 2 * i + 1, 0));
      slices.push_back(
          {begin, begin + static_cast<int64_t>(philox_below(40, seed, 2 * i + 2, 0)), i});
    }
    std::vector<int> seen(n, 0);
    for (const auto& lane : lay_on_lanes(slices)) {
      std::vector<size_t> open;
      int64_t at = 0;
      for (const SliceEdge& e : lane) {
        ASSERT_GE(e.time_ns, at);
        at = e.time_ns;
        if (e.is_begin) {
          EXPECT_EQ(e.time_ns, slices[e.source].begin_ns);
          open.push_back(e.source);
          ++seen[e.source];
        } else {
          ASSERT_FALSE(open.empty());
          ASSERT_EQ(open.back(), e.source);
          EXPECT_EQ(e.time_ns, slices[e.source].end_ns);
          open.pop_back();
        }
      }
      ASSERT_TRUE(open.empty());
    }
    for (const int count : seen) ASSERT_EQ(count, 1);
  }
}

// Decodes with the schema of the perfetto Python package.
class PerfettoTest : public ::testing::Test {
 protected:
  void SetUp() override {
    const char* python = std::getenv("MUSTER_PYTHON");
    python_ = python != nullptr ? python : std::string(MUSTER_SOURCE_DIR) + "/.venv/bin/python";
    if (access(python_.c_str(), X_OK) != 0) GTEST_SKIP() << "no Python at " << python_;
    if (std::system((python_ +
                     " -c 'from perfetto.protos.perfetto.trace import perfetto_trace_pb2' "
                     ">/dev/null 2>&1")
                        .c_str()) != 0)
      GTEST_SKIP() << python_ << " has no package perfetto with protobuf";
  }

  nlohmann::json decode(const PerfettoTrace& trace) {
    std::string folder = ::testing::TempDir() + "/perfetto_XXXXXX";
    MUSTER_CHECK(mkdtemp(folder.data()) != nullptr);
    std::ofstream(folder + "/trace", std::ios::binary) << trace.bytes;
    const std::string command = python_ +
                                " " MUSTER_SOURCE_DIR "/src/insight/export/decode_perfetto.py " +
                                folder + "/trace > " + folder + "/json";
    EXPECT_EQ(std::system(command.c_str()), 0);
    std::ifstream in(folder + "/json");
    nlohmann::json json = nlohmann::json::parse(in, nullptr, false);
    std::filesystem::remove_all(folder);
    return json;
  }

  std::string python_;
};

TraceData sample() {
  TraceData t{.rank = 1, .attempt = 2, .pid = 4711};
  t.names = {"(unnamed)", "step", "compute", "loss", "tokens", "note"};
  t.threads = {{0, 4711, "main"}, {1, 4712, "comm"}};
  t.events = {
      {.kind = RecordKind::step, .name = 1, .time_ns = 1'000'000, .a = 7},
      // Complete records arrive when they end: the inner one first.
      {.kind = RecordKind::complete, .name = 2, .time_ns = 1'000'100, .duration_ns = 50, .a = 7},
      {.kind = RecordKind::complete,
       .name = 1,
       .time_ns = 1'000'000,
       .duration_ns = 500,
       .a = 7,
       .b = 9},
      {.kind = RecordKind::counter,
       .flags = kFlagReal,
       .name = 3,
       .time_ns = 1'000'600,
       .a = std::bit_cast<uint64_t>(2.5)},
      {.kind = RecordKind::counter,
       .name = 4,
       .time_ns = 1'000'600,
       .a = static_cast<uint64_t>(-3)},
      {.kind = RecordKind::instant, .name = 5, .time_ns = 1'000'700, .a = UINT64_MAX},
      {.kind = RecordKind::begin, .name = 2, .ring = 1, .serial = 1, .time_ns = 1'000'000},
      // Crosses the one before.
      {.kind = RecordKind::begin, .name = 1, .ring = 1, .serial = 2, .time_ns = 1'000'050},
      {.kind = RecordKind::end, .name = 2, .ring = 1, .serial = 1, .time_ns = 1'000'100},
      {.kind = RecordKind::end, .name = 2, .ring = 1, .serial = 99, .time_ns = 1'000'120},
  };
  return t;
}

TEST_F(PerfettoTest, EverySliceCounterAndInstantIsDecodedWithNameTimeAndTrack) {
  const std::vector<TraceData> processes = {sample()};
  const std::vector<PerfettoEvent> events = {
      {.time_ns = 999'000, .name = "attempt.verdict", .notes = {{"cause", "fatal_signal"}}}};
  const PerfettoTrace trace = perfetto_trace({processes, events, 5'000'000'000});
  EXPECT_EQ(trace.counts.slices, 4u);
  EXPECT_EQ(trace.counts.unfinished, 1u);
  EXPECT_EQ(trace.counts.orphan_ends, 1u);

  const nlohmann::json json = decode(trace);
  ASSERT_FALSE(json.is_discarded());
  EXPECT_TRUE(json["problems"].empty()) << json["problems"];
  ASSERT_EQ(json["slices"].size(), 4u);
  const auto slice = [&](const char* track, const char* name) {
    for (const auto& s : json["slices"])
      if (s["track"] == track && s["name"] == name) return s;
    ADD_FAILURE() << "no slice " << name << " on " << track;
    return nlohmann::json();
  };
  EXPECT_EQ(slice("main", "step")["time"], 1'000'000);
  EXPECT_EQ(slice("main", "step")["duration"], 500);
  EXPECT_EQ(slice("main", "step")["notes"]["b"], 9);
  EXPECT_EQ(slice("main", "compute")["duration"], 50);
  EXPECT_EQ(slice("comm", "compute")["duration"], 100);
  const auto crossing = slice("comm (2)", "step");
  EXPECT_EQ(crossing["time"], 1'000'050);
  EXPECT_EQ(crossing["duration"], 650);  // to the process's last record
  EXPECT_TRUE(crossing["notes"].contains("unfinished"));

  ASSERT_EQ(json["counters"].size(), 2u);
  EXPECT_EQ(json["counters"][0]["track"], "loss");
  EXPECT_EQ(json["counters"][0]["value"], 2.5);
  EXPECT_EQ(json["counters"][1]["value"], -3);

  ASSERT_EQ(json["instants"].size(), 3u);
  EXPECT_EQ(json["instants"][0]["track"], "supervisor");
  EXPECT_EQ(json["instants"][0]["notes"]["cause"], "fatal_signal");
  EXPECT_EQ(json["instants"][1]["notes"]["step"], 7);
  EXPECT_EQ(json["instants"][2]["notes"]["a"], UINT64_MAX);

  EXPECT_EQ(json["clocks"][0]["3"], 999'000);
  EXPECT_EQ(json["clocks"][0]["1"], 5'000'999'000);
  const auto& tracks = json["tracks"];
  const auto main = std::find_if(tracks.begin(), tracks.end(),
                                 [](const auto& t) { return t["label"] == "main"; });
  ASSERT_NE(main, tracks.end());
  EXPECT_EQ((*main)["parent"], "rank 1, attempt 2");
  EXPECT_EQ((*main)["pid"], 4711);
  EXPECT_EQ((*main)["tid"], 4711);
}

TEST_F(PerfettoTest, NothingVanishesFromManyRanksAndRandomRecords) {
  std::vector<TraceData> processes;
  uint64_t slices = 0;
  for (int32_t rank = 0; rank < 5; ++rank) {
    TraceData t{.rank = rank, .pid = rank == 3 ? 0 : 100 + rank};
    t.names = {"(unnamed)", "x", "y"};
    for (uint64_t i = 0; i < 500; ++i) {
      const auto r = [&](uint64_t n, uint64_t k) {
        return philox_below(n, static_cast<uint64_t>(rank), i, k);
      };
      t.events.push_back({.kind = RecordKind::complete,
                          .name = static_cast<uint16_t>(r(4, 0)),  // 3 is out of the table
                          .ring = static_cast<uint32_t>(r(3, 1)),
                          .time_ns = static_cast<int64_t>(r(100'000, 2)),
                          .duration_ns = static_cast<int64_t>(r(3'000, 3))});
      ++slices;
    }
    processes.push_back(std::move(t));
  }
  const nlohmann::json json = decode(perfetto_trace({processes, {}, 0}));
  ASSERT_FALSE(json.is_discarded());
  EXPECT_TRUE(json["problems"].empty()) << json["problems"];
  EXPECT_EQ(json["slices"].size(), slices);
}

TEST_F(PerfettoTest, AnEmptyRunIsAValidTrace) {
  const nlohmann::json json = decode(perfetto_trace({{}, {}, 0}));
  ASSERT_FALSE(json.is_discarded());
  EXPECT_TRUE(json["problems"].empty());
  EXPECT_EQ(json["tracks"].size(), 1u);
}

}  // namespace
}  // namespace muster
