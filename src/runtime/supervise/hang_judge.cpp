#include "runtime/supervise/hang_judge.h"

#include <algorithm>

#include "base/units.h"

namespace muster {

static constexpr size_t kKept = 256;

void HangJudge::learn(Nanos step_time) {
  if (step_times_.size() == 1 && !warm_) {
    warm_ = true;
    step_times_.front() = step_time.count();
  } else if (step_times_.size() < kKept) {
    step_times_.push_back(step_time.count());
  } else {
    step_times_[next_] = step_time.count();
    next_ = (next_ + 1) % kKept;
  }
}

Nanos HangJudge::limit() const {
  if (step_times_.empty()) return policy_.start_limit;
  std::vector<int64_t> sorted = step_times_;
  const size_t index = std::min(sorted.size() - 1, sorted.size() * 99 / 100);
  std::nth_element(sorted.begin(), sorted.begin() + static_cast<ptrdiff_t>(index), sorted.end());
  const auto learned = static_cast<int64_t>(static_cast<double>(sorted[index]) * policy_.times_p99);
  return std::max(policy_.least, Nanos{learned});
}

std::optional<std::string> HangJudge::look(const ProgressSnapshot& snapshot, Nanos now) {
  if (snapshot.step != step_) {
    // Steps may be shorter than the time between two looks: then their mean is learned.
    if (step_ > 0 && snapshot.step > step_)
      learn((now - step_began_ - announced_) / (snapshot.step - step_));
    step_ = snapshot.step;
    step_began_ = now;
    announced_ = Nanos{0};
    last_change_ = now;
  }
  if (snapshot.ops != ops_) {
    ops_ = snapshot.ops;
    last_change_ = now;
  }
  last_change_ = std::max(last_change_, std::min(snapshot.last, now));
  const bool expected = snapshot.long_until > now || snapshot.phase == Phase::finished;
  if (expected) announced_ += now - last_look_;
  last_look_ = now;
  const Nanos silence = now - last_change_;
  if (expected || silence < limit()) {
    suspected_.reset();
    // Silence that was announced is no evidence afterwards.
    if (expected) last_change_ = now;
    return std::nullopt;
  }
  if (!suspected_) suspected_ = now;
  if (now - *suspected_ < policy_.confirm) return std::nullopt;
  return "no progress for " + format_duration(silence) + " in phase " +
         std::string(phase_name(snapshot.phase)) + ", step " + std::to_string(snapshot.step) +
         " (limit " + format_duration(limit()) + ")";
}

std::vector<SilentRank> hang_culprits(const std::vector<SilentRank>& silent, size_t running) {
  std::vector<SilentRank> culprits;
  for (const SilentRank& rank : silent)
    if (rank.stopped) culprits.push_back(rank);
  if (!culprits.empty()) return culprits;
  for (const SilentRank& rank : silent)
    if (!rank.progress.waiting) culprits.push_back(rank);
  if (!culprits.empty() || silent.size() < running || silent.empty()) return culprits;
  const int64_t behind =
      std::min_element(silent.begin(), silent.end(), [](const auto& a, const auto& b) {
        return a.progress.step < b.progress.step;
      })->progress.step;
  for (const SilentRank& rank : silent)
    if (rank.progress.step == behind) culprits.push_back(rank);
  return culprits;
}

}  // namespace muster
