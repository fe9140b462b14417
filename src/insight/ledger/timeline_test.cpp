#include "insight/ledger/timeline.h"

#include <gtest/gtest.h>

#include "trace/vocabulary.h"

namespace muster {
namespace {

// Writes a trace in the words of the trainer; times in ns.
class Tracer {
 public:
  Tracer(int32_t rank, int32_t attempt) {
    data_.rank = rank;
    data_.attempt = attempt;
    data_.names = {"(unnamed)"};
  }
  Tracer& span(std::string_view name, int64_t begin, int64_t end, uint64_t a = 0, uint64_t b = 0,
               uint32_t ring = 0) {
    data_.events.push_back({.kind = RecordKind::complete,
                            .name = id(name),
                            .ring = ring,
                            .time_ns = begin,
                            .duration_ns = end - begin,
                            .a = a,
                            .b = b});
    return *this;
  }
  Tracer& mark(int64_t step, int64_t at) {
    data_.events.push_back({.kind = RecordKind::step,
                            .name = id(trace_name::kStep),
                            .time_ns = at,
                            .a = static_cast<uint64_t>(step)});
    return *this;
  }
  Tracer& open(std::string_view name, uint32_t serial, int64_t at, uint64_t a = 0, uint64_t b = 0) {
    data_.events.push_back({.kind = RecordKind::begin,
                            .name = id(name),
                            .serial = serial,
                            .time_ns = at,
                            .a = a,
                            .b = b});
    return *this;
  }
  Tracer& close(std::string_view name, uint32_t serial, int64_t at) {
    data_.events.push_back(
        {.kind = RecordKind::end, .name = id(name), .serial = serial, .time_ns = at});
    return *this;
  }
  const TraceData& data() const { return data_; }

 private:
  uint16_t id(std::string_view name) {
    for (size_t i = 1; i < data_.names.size(); ++i)
      if (data_.names[i] == name) return static_cast<uint16_t>(i);
    data_.names.emplace_back(name);
    return static_cast<uint16_t>(data_.names.size() - 1);
  }
  TraceData data_;
};

Event event(std::string_view kind, int64_t at, nlohmann::json payload = nlohmann::json::object(),
            int32_t attempt = -1, int32_t rank = -1) {
  return {.wall = Nanos{at + 1'000'000},
          .monotonic = Nanos{at},
          .attempt = attempt,
          .rank = rank,
          .kind = std::string(kind),
          .payload = std::move(payload)};
}

TEST(Timeline, SpansBecomeClaimsByTheirFirstWords) {
  Tracer t(0, 0);
  t.span("init.rendezvous", 5, 10).span("compute.forward", 20, 30).span("computer", 30, 40);
  t.span("comm.all_reduce", 40, 50, 1, 7).span("data_wait", 50, 55).span("loader.read", 0, 99);
  const RankLife life = life_from_trace(t.data(), 1);
  ASSERT_EQ(life.spans.size(), 3u);
  EXPECT_EQ(life.spans[0].leaf, Leaf::init_rendezvous);
  EXPECT_EQ(life.spans[1].leaf, Leaf::step_compute);
  EXPECT_EQ(life.spans[2].leaf, Leaf::step_exposed_data);
  ASSERT_EQ(life.collectives.size(), 1u);
  EXPECT_EQ(life.collectives[0].sequence, 7u);
  EXPECT_EQ(life.first_record_ns, 0);
}

TEST(Timeline, AStepWithoutEndLastsUntilTheLastSignOfLife) {
  Tracer t(0, 0);
  t.mark(1, 100).span("step", 100, 200, 1);
  t.mark(2, 200).span("step", 199, 300, 2);  // the span may begin before its mark
  t.mark(3, 300).span("compute.forward", 300, 340).open("comm.all_reduce", 1, 350, 3, 9);
  t.span("writer.block", 100, 900, 0, 0, /*ring=*/5);  // a background thread is no progress
  const RankLife life = life_from_trace(t.data(), 50);
  ASSERT_EQ(life.steps.size(), 3u);
  EXPECT_TRUE(life.steps[0].finished);
  EXPECT_EQ(life.steps[0].when, (Interval{100, 199}));  // cut where the next begins
  EXPECT_TRUE(life.steps[1].finished);
  EXPECT_FALSE(life.steps[2].finished);
  EXPECT_EQ(life.steps[2].step, 3);
  EXPECT_EQ(life.steps[2].when, (Interval{300, 350}));
  EXPECT_EQ(life.last_progress_ns, 350);
  ASSERT_EQ(life.collectives.size(), 1u);
  EXPECT_EQ(life.collectives[0].when, (Interval{350, 350}));
}

TEST(Timeline, AStepRepeatedInOneAttemptIsTwoRuns) {
  Tracer t(0, 0);
  t.mark(1, 0).span("step", 0, 10, 1).mark(2, 10).mark(2, 20).span("step", 20, 30, 2);
  const RankLife life = life_from_trace(t.data(), 0);
  ASSERT_EQ(life.steps.size(), 3u);
  EXPECT_FALSE(life.steps[1].finished);
  EXPECT_EQ(life.steps[1].when, (Interval{10, 20}));
}

TEST(Timeline, BeginAndEndPairBySerial) {
  Tracer t(0, 0);
  t.open("eval", 1, 10).open("restore", 2, 12).close("restore", 2, 20).close("eval", 1, 30);
  t.close("eval", 77, 40);  // its begin was overwritten
  const RankLife life = life_from_trace(t.data(), 0);
  ASSERT_EQ(life.spans.size(), 2u);
  EXPECT_EQ(life.spans[0].leaf, Leaf::restore);
  EXPECT_EQ(life.spans[0].when, (Interval{12, 20}));
  EXPECT_EQ(life.spans[1].when, (Interval{10, 30}));
}

std::vector<Event> killed_job() {
  return {event("job.launch", 0, {{"ranks", 2}, {"command", {"train"}}}),
          event("attempt.placed", 10, {}, 0),
          event("ckpt.committed", 210, {{"step", 1}}, 0),
          event("attempt.verdict", 330, {{"cause", "fatal_signal"}, {"message", "rank 1: SIGKILL"}},
                0, 1),
          event("attempt.placed", 350, {}, 1),
          event("ckpt.restored", 380, {{"step", 1}}, 1),
          event("rank.exit", 590, {{"exit_code", 0}}, 1, 0),
          event("rank.exit", 595, {{"exit_code", 0}}, 1, 1),
          event("job.end", 600, {{"succeeded", true}, {"exit_code", 0}, {"reason", "done"}})};
}
std::vector<TraceData> killed_job_traces() {
  std::vector<TraceData> traces;
  for (int32_t rank = 0; rank < 2; ++rank) {
    Tracer a(rank, 0), b(rank, 1);
    a.span("init.device", 20, 100).mark(1, 100).span("step", 100, 200, 1);
    a.mark(2, 200).span("step", 200, 300, 2).mark(3, 300).span("compute", 300, 320);
    b.span("restore", 360, 400);
    b.mark(2, 400).span("step", 400, 500, 2).mark(3, 500).span("step", 500, 590, 3);
    traces.push_back(a.data());
    traces.push_back(b.data());
  }
  return traces;
}

TEST(Timeline, EventsAndTracesOfAKilledJobGiveItsLedger) {
  const auto timeline = make_timeline(killed_job(), killed_job_traces(), 0);
  ASSERT_TRUE(timeline.ok()) << timeline.error().to_string();
  const Ledger ledger = make_ledger(timeline->ledger);
  const auto want = [&](Leaf leaf, int64_t rank_ns) {
    EXPECT_EQ(ledger.at(leaf), rank_ns) << leaf_name(leaf);
  };
  want(Leaf::provision, 20);
  want(Leaf::init_device, 2 * (90 + 10));
  want(Leaf::restore, 80);
  want(Leaf::hang, 20);
  want(Leaf::evict, 40);
  want(Leaf::rework, 2 * (100 + 20));
  want(Leaf::idle, 10 + 5);
  EXPECT_EQ(ledger.step_total(), 2 * (100 + 190));
  EXPECT_EQ(ledger.total(), 1200);
  ASSERT_EQ(timeline->failures.size(), 1u);
  EXPECT_EQ(timeline->failures[0].culprit, 1);
  EXPECT_EQ(timeline->failures[0].cause, "fatal_signal");
  EXPECT_EQ(timeline->failures[0].next_started_from, 1);
  EXPECT_TRUE(timeline->problems.empty());
  EXPECT_EQ(timeline->launch_wall_ns, 1'000'000);
}

TEST(Timeline, WithoutRestoredEventsTheFirstStepTellsWhereAnAttemptStarted) {
  std::vector<Event> events = killed_job();
  std::erase_if(events, [](const Event& e) { return e.kind == "ckpt.restored"; });
  const auto timeline = make_timeline(events, killed_job_traces(), 0);
  EXPECT_EQ(timeline->ledger.started_from.at(1), 1);
  EXPECT_EQ(make_ledger(timeline->ledger).at(Leaf::rework), 240);
}

TEST(Timeline, AJobThatRunsOrLostItsSupervisorEndsNowOrAtTheLastSign) {
  std::vector<Event> events = killed_job();
  events.resize(3);
  const auto live = make_timeline(events, killed_job_traces(), 1000);
  EXPECT_FALSE(live->ledger.ended);
  EXPECT_EQ(live->ledger.end_ns, 1000);
  EXPECT_EQ(make_ledger(live->ledger).total(), 2000);
  const auto lost = make_timeline(events, killed_job_traces(), 0);
  EXPECT_EQ(lost->ledger.end_ns, 320);
}

TEST(Timeline, WithoutTracesTimeIsOtherNotLost) {
  const auto timeline = make_timeline(killed_job(), {}, 0);
  const Ledger ledger = make_ledger(timeline->ledger);
  EXPECT_EQ(ledger.total(), 1200);
  EXPECT_EQ(ledger.at(Leaf::evict), 40);
}

TEST(Timeline, OnlyTheCulpritStopsWhenOneRankIsRestarted) {
  const std::vector<Event> events = {event("job.launch", 0, {{"ranks", 2}}),
                                     event("rank.start", 2, {{"pid", 1}}, 0, 0),
                                     event("rank.start", 4, {{"pid", 2}}, 0, 1),
                                     event("attempt.placed", 5, {}, 0),
                                     event("attempt.verdict", 50, {{"cause", "exit_code"}}, 0, 1),
                                     event("job.restart", 51, {{"scope", "rank"}}, 0),
                                     event("rank.start", 60, {{"pid", 3}}, 0, 1),
                                     event("rank.exit", 100, {{"exit_code", 0}}, 0, 1),
                                     event("job.end", 120, {{"succeeded", true}})};
  const JobTimeline timeline = make_timeline(events, {}, 0).value();
  const Ledger ledger = make_ledger(timeline.ledger);
  EXPECT_EQ(ledger.by_rank[0][static_cast<size_t>(Leaf::evict)], 0);
  EXPECT_EQ(ledger.by_rank[1][static_cast<size_t>(Leaf::evict)], 10);
  EXPECT_EQ(ledger.by_rank[1][static_cast<size_t>(Leaf::idle)], 20);
  EXPECT_EQ(ledger.by_rank[0][static_cast<size_t>(Leaf::provision)], 2);
  EXPECT_EQ(ledger.by_rank[1][static_cast<size_t>(Leaf::provision)], 4);
  EXPECT_EQ(timeline.restarts(), 1);
}

TEST(Timeline, AVerdictWithoutANewProcessIsNoRestart) {
  std::vector<Event> events = killed_job();
  events.resize(4);
  events.push_back(event("job.end", 340, {{"succeeded", false}, {"exit_code", 137}}));
  const JobTimeline timeline = make_timeline(events, killed_job_traces(), 0).value();
  EXPECT_EQ(timeline.restarts(), 0);
  EXPECT_EQ(timeline.failures.size(), 1u);
  EXPECT_EQ(make_ledger(timeline.ledger).at(Leaf::evict), 20);
  EXPECT_EQ(make_timeline(killed_job(), killed_job_traces(), 0)->restarts(), 1);
}

TEST(Timeline, AResumedRunDirectoryHoldsSeveralJobs) {
  std::vector<Event> events = {event("note", 0)};
  for (const Event& e : killed_job()) events.push_back(e);
  events.push_back(event("job.launch", 1000, {{"ranks", 1}}));
  const auto jobs = split_jobs(events);
  ASSERT_EQ(jobs.size(), 2u);
  EXPECT_EQ(jobs[0].size(), killed_job().size());
  EXPECT_EQ(make_timeline(jobs[1], {}, 1500)->ledger.end_ns, 1500);
}

TEST(Timeline, ALogWithoutASensibleLaunchIsRefused) {
  EXPECT_EQ(make_timeline({}, {}, 0).error().code(), Code::invalid_argument);
  EXPECT_FALSE(make_timeline({event("job.launch", 0, {{"ranks", 0}})}, {}, 0).ok());
  EXPECT_FALSE(make_timeline({event("job.launch", 0, {{"ranks", "two"}})}, {}, 0).ok());
}

TEST(Timeline, ATraceWithHolesIsTold) {
  std::vector<TraceData> traces = killed_job_traces();
  traces[0].overrun = 12;
  const auto timeline = make_timeline(killed_job(), traces, 0);
  ASSERT_EQ(timeline->problems.size(), 1u);
  EXPECT_NE(timeline->problems[0].find("12 records"), std::string::npos);
}

}  // namespace
}  // namespace muster
