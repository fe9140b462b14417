#include "insight/ledger/timeline.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <unordered_map>

#include "trace/vocabulary.h"

namespace muster {
namespace {

struct NamedLeaf {
  std::string_view name;
  Leaf leaf;
};
constexpr NamedLeaf kSpanLeaves[] = {
    {trace_name::kInitDevice, Leaf::init_device},
    {trace_name::kInitRendezvous, Leaf::init_rendezvous},
    {trace_name::kInitCompile, Leaf::init_compile},
    {trace_name::kRestore, Leaf::restore},
    {trace_name::kCompute, Leaf::step_compute},
    {trace_name::kDataWait, Leaf::step_exposed_data},
    {trace_name::kCkptExposed, Leaf::step_exposed_ckpt},
    {trace_name::kEval, Leaf::eval},
    {trace_name::kCkptBlock, Leaf::ckpt_block},
    {trace_name::kIdle, Leaf::idle},
};

// The supervisor's finer events (runtime/supervise/job_events.h, a room above this one's reach);
// without them attempt.placed and attempt.verdict are enough.
constexpr std::string_view kRankStart = "rank.start";
constexpr std::string_view kJobRestart = "job.restart";

// "compute" and "compute.forward" are, "computer" is not.
bool is_or_under(std::string_view name, std::string_view word) {
  return name.starts_with(word) && (name.size() == word.size() || name[word.size()] == '.');
}

enum class Use : uint8_t { none, span, collective, step };
struct NameUse {
  Use use = Use::none;
  Leaf leaf = Leaf::other;
};

NameUse use_of(std::string_view name) {
  if (name == trace_name::kStep) return {Use::step, Leaf::other};
  if (is_or_under(name, trace_name::kComm)) return {Use::collective, Leaf::other};
  for (const NamedLeaf& n : kSpanLeaves)
    if (is_or_under(name, n.name)) return {Use::span, n.leaf};
  return {};
}

// Turns the records of one process into the parts of its life.
class LifeBuilder {
 public:
  explicit LifeBuilder(const TraceData& trace, int64_t placed_ns) : trace_(trace) {
    for (const std::string& name : trace.names) uses_.push_back(use_of(name));
    life_.rank = trace.rank;
    life_.attempt = trace.attempt;
    life_.placed_ns = placed_ns;
    life_.last_progress_ns = placed_ns;
    for (const TraceEvent& e : trace.events)
      if (is_step_mark(e)) step_rings_.push_back(e.ring);
    std::sort(step_rings_.begin(), step_rings_.end());
    step_rings_.erase(std::unique(step_rings_.begin(), step_rings_.end()), step_rings_.end());
  }

  RankLife build() {
    for (const TraceEvent& e : trace_.events) note_times(e);
    for (const TraceEvent& e : trace_.events) take(e);
    // What was open when the process ended lasted until its last sign of life.
    for (const auto& [key, begin] : open_) add(begin, life_.last_progress_ns, false);
    settle_steps();
    return std::move(life_);
  }

 private:
  bool is_step_mark(const TraceEvent& e) const {
    return e.kind == RecordKind::step || use(e).use == Use::step;
  }
  NameUse use(const TraceEvent& e) const {
    return e.name < uses_.size() ? uses_[e.name] : NameUse{};
  }

  // Progress is what the thread that steps does; a background writer does not make a stuck rank
  // alive. Before the first step every thread counts.
  void note_times(const TraceEvent& e) {
    const int64_t end = e.time_ns + e.duration_ns;
    if (!life_.first_record_ns || e.time_ns < *life_.first_record_ns)
      life_.first_record_ns = e.time_ns;
    if (step_rings_.empty() || std::binary_search(step_rings_.begin(), step_rings_.end(), e.ring))
      life_.last_progress_ns = std::max(life_.last_progress_ns, end);
  }

  void take(const TraceEvent& e) {
    switch (e.kind) {
      case RecordKind::complete:
        add(e, e.time_ns + e.duration_ns, true);
        break;
      case RecordKind::begin:
        open_[key(e)] = e;
        break;
      case RecordKind::end:
        if (const auto found = open_.find(key(e)); found != open_.end()) {
          add(found->second, e.time_ns, true);
          open_.erase(found);
        }
        break;
      case RecordKind::step:
        marks_.push_back({static_cast<int64_t>(e.a), {e.time_ns, e.time_ns}, false});
        break;
      case RecordKind::instant:
      case RecordKind::counter:
        break;
    }
  }

  void add(const TraceEvent& begin, int64_t end_ns, bool finished) {
    const NameUse u = use(begin);
    const Interval when{begin.time_ns, end_ns};
    switch (u.use) {
      case Use::none:
        break;
      case Use::span:
        life_.spans.push_back({u.leaf, when});
        break;
      case Use::collective:
        life_.collectives.push_back({std::string(trace_.name_of(begin)), begin.b, when});
        break;
      case Use::step:
        life_.steps.push_back({static_cast<int64_t>(begin.a), when, finished});
        break;
    }
  }

  // Marks without a span are steps that did not end; then all steps in order, cut where the next
  // begins.
  void settle_steps() {
    auto& steps = life_.steps;
    auto by_begin = [](const StepRun& x, const StepRun& y) { return x.when.begin < y.when.begin; };
    std::sort(steps.begin(), steps.end(), by_begin);
    std::sort(marks_.begin(), marks_.end(), by_begin);
    std::multimap<int64_t, Interval> spans;
    for (const StepRun& s : steps) spans.emplace(s.step, s.when);
    std::vector<StepRun> unfinished;
    for (size_t i = 0; i < marks_.size(); ++i) {
      const int64_t next = i + 1 < marks_.size() ? marks_[i + 1].when.begin : INT64_MAX;
      const auto [first, last] = spans.equal_range(marks_[i].step);
      // A step's span may begin a moment before its mark or after it.
      const bool has_span = std::any_of(first, last, [&](const auto& span) {
        return span.second.begin < next && span.second.end > marks_[i].when.begin;
      });
      if (has_span) continue;
      StepRun run = marks_[i];
      run.when.end = std::max(run.when.begin, std::min(next, life_.last_progress_ns));
      unfinished.push_back(run);
    }
    steps.insert(steps.end(), unfinished.begin(), unfinished.end());
    std::sort(steps.begin(), steps.end(), by_begin);
    for (size_t i = 0; i + 1 < steps.size(); ++i)
      steps[i].when.end = std::min(steps[i].when.end, steps[i + 1].when.begin);
  }

  static uint64_t key(const TraceEvent& e) { return uint64_t{e.ring} << 32 | e.serial; }

  const TraceData& trace_;
  std::vector<NameUse> uses_;
  std::vector<uint32_t> step_rings_;
  std::unordered_map<uint64_t, TraceEvent> open_;
  std::vector<StepRun> marks_;
  RankLife life_;
};

int64_t integer_in(const nlohmann::json& payload, const char* key, int64_t fallback) {
  const auto found = payload.find(key);
  return found != payload.end() && found->is_number_integer() ? found->get<int64_t>() : fallback;
}
std::string text_in(const nlohmann::json& payload, const char* key) {
  const auto found = payload.find(key);
  return found != payload.end() && found->is_string() ? found->get<std::string>() : std::string();
}
bool true_in(const nlohmann::json& payload, const char* key) {
  const auto found = payload.find(key);
  return found != payload.end() && found->is_boolean() && found->get<bool>();
}

class TimelineBuilder {
 public:
  TimelineBuilder(const std::vector<Event>& events, const std::vector<TraceData>& traces)
      : events_(events) {
    for (const TraceData& t : traces) traces_[{t.rank, t.attempt}] = &t;
  }

  Result<JobTimeline> build(int64_t now_ns) {
    MUSTER_TRY(read_launch());
    for (const Event& e : events_) {
      newest_ = std::max(newest_, e.monotonic.count());
      if (e.kind == event_kind::kJobEnd) read_end(e);
      if (e.kind == kRankStart) start(e);
      if (e.kind == event_kind::kAttemptPlaced) place(e);
      if (e.kind == kJobRestart) restart(e);
      if (e.kind == event_kind::kAttemptVerdict) fail(e);
      if (e.kind == event_kind::kRankExit) exit(e);
      if (e.kind == event_kind::kRestored)
        input().started_from[e.attempt] = integer_in(e.payload, "step", 0);
      if (e.kind == event_kind::kCommitted)
        input().committed_step =
            std::max(input().committed_step.value_or(0), integer_in(e.payload, "step", 0));
    }
    for (RankLife& life : input().lives) newest_ = std::max(newest_, life.last_progress_ns);
    if (!input().ended) input().end_ns = std::max(input().launch_ns, now_ns > 0 ? now_ns : newest_);
    guess_starts();
    for (RestartFacts& failure : out_.failures) {
      const auto next = input().started_from.upper_bound(failure.attempt);
      if (next != input().started_from.end()) failure.next_started_from = next->second;
    }
    return std::move(out_);
  }

 private:
  LedgerInput& input() { return out_.ledger; }

  Status read_launch() {
    const auto launch = std::find_if(events_.begin(), events_.end(), [](const Event& e) {
      return e.kind == event_kind::kJobLaunch;
    });
    if (launch == events_.end())
      return Error(Code::invalid_argument,
                   fmt::format("no {} event: the log is not one of a job", event_kind::kJobLaunch));
    const int64_t ranks = integer_in(launch->payload, "ranks", 0);
    if (ranks < 1 || ranks > 1'000'000)
      return Error(Code::invalid_argument,
                   fmt::format("{} event {} has no sensible \"ranks\": {}", launch->kind,
                               launch->id, launch->payload.dump()));
    input().ranks = static_cast<int32_t>(ranks);
    input().launch_ns = launch->monotonic.count();
    out_.launch = launch->payload;
    out_.launch_wall_ns = launch->wall.count();
    return {};
  }

  void read_end(const Event& e) {
    input().ended = true;
    input().end_ns = std::max(input().launch_ns, e.monotonic.count());
    input().succeeded = true_in(e.payload, "succeeded");
    out_.end = e.payload;
  }

  // One rank's process runs.
  void start(const Event& e) {
    if (e.rank < 0 || e.rank >= input().ranks) {
      out_.problems.push_back(
          fmt::format("a process of rank {} in a job of {}", e.rank, input().ranks));
      return;
    }
    const RankLife* before = find(e.rank, e.attempt);
    add_life(e.rank, e.attempt, e.monotonic.count(), /*first=*/before == nullptr);
  }

  void place(const Event& e) {
    for (int32_t rank = 0; rank < input().ranks; ++rank)
      if ((e.rank < 0 || e.rank == rank) && find(rank, e.attempt) == nullptr)
        add_life(rank, e.attempt, e.monotonic.count(), /*first=*/true);
  }

  // A rank that is restarted within its attempt leaves one trace, its first process's.
  void add_life(int32_t rank, int32_t attempt, int64_t placed_ns, bool first) {
    RankLife life{.rank = rank, .attempt = attempt};
    life.placed_ns = life.last_progress_ns = placed_ns;
    if (const auto trace = traces_.find({rank, attempt}); first && trace != traces_.end()) {
      life = life_from_trace(*trace->second, placed_ns);
      if (trace->second->overrun > 0 || trace->second->skipped_bytes > 0)
        out_.problems.push_back(
            fmt::format("trace of rank {} in attempt {} is not whole: {} records lost, {} bytes "
                        "unreadable",
                        rank, attempt, trace->second->overrun, trace->second->skipped_bytes));
    }
    for (RestartFacts& failure : out_.failures)
      if (failure.verdict_ns <= placed_ns && (!failure.rank_only || failure.culprit == rank))
        failure.restarted = true;
    input().lives.push_back(std::move(life));
  }

  void restart(const Event& e) {
    if (text_in(e.payload, "scope") != "rank" || out_.failures.empty()) return;
    RestartFacts& failure = out_.failures.back();
    failure.rank_only = true;
    for (RankLife& life : input().lives)
      if (life.rank != failure.culprit && life.verdict_ns == failure.verdict_ns)
        life.verdict_ns.reset();  // the others go on
  }

  void fail(const Event& e) {
    for (RankLife& life : input().lives)
      if (life.attempt == e.attempt && !life.verdict_ns) life.verdict_ns = e.monotonic.count();
    out_.failures.push_back({.attempt = e.attempt,
                             .culprit = e.rank,
                             .verdict_ns = e.monotonic.count(),
                             .cause = text_in(e.payload, "cause"),
                             .message = text_in(e.payload, "message")});
  }

  void exit(const Event& e) {
    if (integer_in(e.payload, "exit_code", -1) != 0) return;
    if (RankLife* life = find(e.rank, e.attempt)) life->ended_well_ns = e.monotonic.count();
  }

  // An attempt that did not say where it started shows it by its first step.
  void guess_starts() {
    std::map<int32_t, int64_t> first_step;
    for (const RankLife& life : input().lives)
      for (const StepRun& s : life.steps) {
        const auto [at, is_new] = first_step.try_emplace(life.attempt, s.step);
        if (!is_new) at->second = std::min(at->second, s.step);
      }
    for (const auto& [attempt, step] : first_step)
      input().started_from.try_emplace(attempt, std::max<int64_t>(0, step - 1));
  }

  RankLife* find(int32_t rank, int32_t attempt) {
    // The newest: a rank may be restarted within its attempt.
    auto& lives = input().lives;
    const auto found = std::find_if(lives.rbegin(), lives.rend(), [&](const RankLife& life) {
      return life.rank == rank && life.attempt == attempt;
    });
    return found == lives.rend() ? nullptr : &*found;
  }

  const std::vector<Event>& events_;
  std::map<std::pair<int32_t, int32_t>, const TraceData*> traces_;
  int64_t newest_ = 0;
  JobTimeline out_;
};

}  // namespace

RankLife life_from_trace(const TraceData& trace, int64_t placed_ns) {
  return LifeBuilder(trace, placed_ns).build();
}

std::vector<std::vector<Event>> split_jobs(const std::vector<Event>& events) {
  std::vector<std::vector<Event>> jobs;
  for (const Event& e : events) {
    if (e.kind == event_kind::kJobLaunch) jobs.emplace_back();
    if (!jobs.empty()) jobs.back().push_back(e);
  }
  return jobs;
}

Result<JobTimeline> make_timeline(const std::vector<Event>& events,
                                  const std::vector<TraceData>& traces, int64_t now_ns) {
  return TimelineBuilder(events, traces).build(now_ns);
}

}  // namespace muster
