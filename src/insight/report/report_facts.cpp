// From a timeline to the parts of a report that it knows.
#include <algorithm>
#include <map>

#include "insight/report/report.h"

namespace muster {
namespace {

constexpr double kNanosPerSecond = 1e9;

double seconds(int64_t ns) {
  return static_cast<double>(ns) / kNanosPerSecond;
}

double init_seconds(const LeafTimes& times) {
  int64_t sum = 0;
  for (size_t i = 0; i < kLeafCount; ++i)
    if (is_init_leaf(static_cast<Leaf>(i))) sum += times[i];
  return seconds(sum);
}

double leaf_seconds(const LeafTimes& times, Leaf leaf) {
  return seconds(times[static_cast<size_t>(leaf)]);
}

}  // namespace

void add_timeline(ReportInput& input, const JobTimeline& timeline) {
  input.ledger = make_ledger(timeline.ledger);
  for (const RestartFacts& f : timeline.failures) {
    ReportRestart r{.attempt = f.attempt,
                    .rank = f.culprit,
                    .at_seconds = seconds(f.verdict_ns - timeline.ledger.launch_ns),
                    .cause = f.cause,
                    .message = f.message,
                    .restarted = f.restarted,
                    .started_from = f.next_started_from};
    if (const auto own = input.ledger.by_attempt.find(f.attempt);
        own != input.ledger.by_attempt.end()) {
      r.detection = leaf_seconds(own->second, Leaf::hang);
      r.restart = leaf_seconds(own->second, Leaf::evict);
      r.rework = leaf_seconds(own->second, Leaf::rework);
    }
    const auto next = input.ledger.by_attempt.upper_bound(f.attempt);
    if (f.restarted && next != input.ledger.by_attempt.end()) {
      r.restart += init_seconds(next->second);
      r.reload = leaf_seconds(next->second, Leaf::restore);
    }
    input.restarts.push_back(std::move(r));
  }
  std::map<std::pair<int32_t, int64_t>, double> last;
  std::vector<const RankLife*> lives;
  for (const RankLife& life : timeline.ledger.lives) lives.push_back(&life);
  std::stable_sort(lives.begin(), lives.end(), [](const RankLife* x, const RankLife* y) {
    return x->placed_ns < y->placed_ns;
  });
  for (const RankLife* life : lives)
    for (const StepRun& s : life->steps)
      if (s.finished) last[{life->rank, s.step}] = seconds(s.when.length());
  for (const auto& [key, time] : last) input.rank_steps.push_back({key.first, key.second, time});
  input.problems.insert(input.problems.end(), timeline.problems.begin(), timeline.problems.end());
}

}  // namespace muster
