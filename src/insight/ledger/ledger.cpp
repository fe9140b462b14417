#include "insight/ledger/ledger.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "base/check.h"

namespace muster {
namespace {

constexpr int64_t kNever = std::numeric_limits<int64_t>::max();

// The last entry into each collective of each attempt.
class LastEntries {
 public:
  explicit LastEntries(const std::vector<RankLife>& lives) {
    for (const RankLife& life : lives)
      for (const CollectiveRun& c : life.collectives)
        if (c.sequence != 0) {
          int64_t& last =
              last_.try_emplace({life.attempt, c.sequence, c.name}, c.when.begin).first->second;
          last = std::max(last, c.when.begin);
        }
  }
  int64_t of(int32_t attempt, const CollectiveRun& c) const {
    const auto found = last_.find({attempt, c.sequence, c.name});
    return found == last_.end() ? c.when.begin : found->second;
  }

 private:
  std::map<std::tuple<int32_t, uint64_t, std::string>, int64_t> last_;
};

// Steps of `attempt` above this were lost.
int64_t kept_until(const LedgerInput& input, int32_t attempt) {
  int64_t kept = kNever;
  for (const auto& [later, from] : input.started_from)
    if (later > attempt) kept = std::min(kept, from);
  if (input.ended && !input.succeeded) kept = std::min(kept, input.committed_step.value_or(0));
  return kept;
}

void claim_in_steps(std::vector<Claim>& claims, const RankLife& life, const Claim& claim) {
  // Steps are in order of begin and do not overlap: the first that can meet the claim is found by
  // its end.
  auto step = std::lower_bound(life.steps.begin(), life.steps.end(), claim.when.begin,
                               [](const StepRun& s, int64_t t) { return s.when.end <= t; });
  for (; step != life.steps.end() && step->when.begin < claim.when.end; ++step)
    claims.push_back({claim.leaf, intersect(claim.when, step->when)});
}

std::optional<Claim> first_step_extra(const RankLife& life) {
  std::vector<int64_t> others;
  const StepRun* first = nullptr;
  for (const StepRun& s : life.steps) {
    if (!s.finished) continue;
    if (first == nullptr)
      first = &s;
    else
      others.push_back(s.when.length());
  }
  if (others.size() < 3) return std::nullopt;
  const auto middle = others.begin() + static_cast<long>(others.size() / 2);
  std::nth_element(others.begin(), middle, others.end());
  const int64_t extra = first->when.length() - *middle;
  if (extra <= 0) return std::nullopt;
  return Claim{Leaf::init_first_step_extra, {first->when.begin, first->when.begin + extra}};
}

void claim_steps(std::vector<Claim>& claims, const RankLife& life, int64_t kept,
                 const LastEntries& entries) {
  for (const StepRun& s : life.steps) {
    claims.push_back({Leaf::step_host_gap, s.when});
    if (s.step > kept) claims.push_back({Leaf::rework, s.when});
  }
  for (const Claim& claim : life.spans) {
    if (is_step_leaf(claim.leaf))
      claim_in_steps(claims, life, claim);
    else
      claims.push_back(claim);
  }
  for (const CollectiveRun& c : life.collectives) {
    const int64_t all_there =
        std::clamp(entries.of(life.attempt, c), c.when.begin, std::max(c.when.begin, c.when.end));
    claim_in_steps(claims, life, {Leaf::step_straggler_wait, {c.when.begin, all_there}});
    claim_in_steps(claims, life, {Leaf::step_exposed_comm, {all_there, c.when.end}});
  }
  if (const auto extra = first_step_extra(life)) claims.push_back(*extra);
}

// Claims of one life; it owns the time of its rank until `next_placed` (or the end).
std::vector<Claim> claims_of(const RankLife& life, int64_t next_placed, int64_t kept,
                             const LastEntries& entries) {
  std::vector<Claim> claims;
  if (life.first_record_ns.has_value())
    claims.push_back({Leaf::init_device, {life.placed_ns, *life.first_record_ns}});
  claim_steps(claims, life, kept, entries);
  if (life.ended_well_ns.has_value())
    claims.push_back({Leaf::idle, {*life.ended_well_ns, life.verdict_ns.value_or(next_placed)}});
  if (life.verdict_ns.has_value()) {
    const int64_t since = std::max(life.placed_ns, life.last_progress_ns);
    claims.push_back({Leaf::hang, {since, *life.verdict_ns}});
    claims.push_back({Leaf::evict, {*life.verdict_ns, next_placed}});
  }
  return claims;
}

void add(LeafTimes& sum, const LeafTimes& times) {
  for (size_t i = 0; i < kLeafCount; ++i) sum[i] += times[i];
}

}  // namespace

int64_t Ledger::step_total() const {
  int64_t sum = 0;
  for (size_t i = 0; i < kLeafCount; ++i)
    if (is_step_leaf(static_cast<Leaf>(i))) sum += times[i];
  return sum;
}

double Ledger::goodput() const {
  return total() == 0 ? 0 : static_cast<double>(step_total()) / static_cast<double>(total());
}

Ledger make_ledger(const LedgerInput& input) {
  const Interval job{input.launch_ns, std::max(input.launch_ns, input.end_ns)};
  Ledger ledger{.ranks = input.ranks, .launch_ns = job.begin, .end_ns = job.end};
  ledger.by_rank.resize(static_cast<size_t>(input.ranks));
  const LastEntries entries(input.lives);

  std::vector<std::vector<const RankLife*>> by_rank(static_cast<size_t>(input.ranks));
  for (const RankLife& life : input.lives) {
    MUSTER_CHECK(life.rank >= 0 && life.rank < input.ranks, life.rank, input.ranks);
    by_rank[static_cast<size_t>(life.rank)].push_back(&life);
  }
  for (size_t rank = 0; rank < by_rank.size(); ++rank) {
    auto& lives = by_rank[rank];
    std::stable_sort(lives.begin(), lives.end(), [](const RankLife* x, const RankLife* y) {
      return std::pair(x->placed_ns, x->attempt) < std::pair(y->placed_ns, y->attempt);
    });
    // Windows from launch over the placements to the end cover the job without overlap.
    int64_t from = job.begin;
    const int64_t first = lives.empty() ? job.end : std::clamp(lives[0]->placed_ns, from, job.end);
    LeafTimes& times = ledger.by_rank[rank];
    times[static_cast<size_t>(Leaf::provision)] += first - from;
    ledger
        .by_attempt[lives.empty() ? 0 : lives[0]->attempt][static_cast<size_t>(Leaf::provision)] +=
        first - from;
    from = first;
    for (size_t i = 0; i < lives.size(); ++i) {
      const int64_t next = i + 1 < lives.size() ? lives[i + 1]->placed_ns : job.end;
      const int64_t until = i + 1 < lives.size() ? std::clamp(next, from, job.end) : job.end;
      const std::vector<Claim> claims =
          claims_of(*lives[i], next, kept_until(input, lives[i]->attempt), entries);
      const LeafTimes part = attribute({from, until}, claims);
      add(times, part);
      add(ledger.by_attempt[lives[i]->attempt], part);
      from = until;
    }
    add(ledger.times, times);
  }
  int64_t sum = 0;
  for (const int64_t t : ledger.times) sum += t;
  MUSTER_CHECK(sum == ledger.total(), sum, ledger.total());
  return ledger;
}

nlohmann::ordered_json ledger_json(const Ledger& ledger) {
  nlohmann::ordered_json json;
  for (const Leaf leaf : leaves_in_reading_order())
    json[std::string(leaf_name(leaf))] = ledger.at(leaf);
  json["total"] = ledger.total();
  return json;
}

}  // namespace muster
