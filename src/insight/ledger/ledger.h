// Ledger: where the time of a job went. Every rank-nanosecond from launch to end falls in exactly
// one leaf (leaf.h); total = ranks x (end - launch); the leaves sum to it exactly.
//
// A pure function of facts (LedgerInput), which timeline.h gathers from the event log and the
// traces of a run. Rules:
//  - provision: launch to the rank's first placement;
//  - hang: the rank's last progress to the verdict on its attempt, whatever the cause; evict: the
//    verdict to its next placement, or to the end when there is none;
//  - init.device: a placement to the first record of the process; other init.*, restore, eval,
//    ckpt_block and idle: the spans of those names; idle also after a rank has ended well;
//  - init.first_step_extra: as much of the first step of an attempt as it took beyond the median of
//    that rank's other finished steps of the attempt (three or more), counted from its begin;
//  - step.*: only inside executions of steps; host_gap is what of a step no span claims;
//  - straggler_wait: of a collective of one (name, sequence number), the time from a rank's own
//    entry to the last rank's entry; the rest is exposed_comm;
//  - rework: an execution of step s of attempt A, if a later attempt started from a state before s,
//    or if the job ended without success and no commit covers s.
#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "insight/ledger/claims.h"
#include "insight/ledger/leaf.h"

namespace muster {

struct StepRun {
  int64_t step = 0;  // counted from 1
  Interval when;
  bool finished = false;
};

struct CollectiveRun {
  std::string name;
  uint64_t sequence = 0;  // 0: unknown, not aligned with other ranks
  Interval when;
};

// One process: a rank in one attempt.
struct RankLife {
  int32_t rank = 0;
  int32_t attempt = 0;
  int64_t placed_ns = 0;
  std::optional<int64_t> first_record_ns;  // none: it recorded nothing
  int64_t last_progress_ns = 0;            // placed_ns when it recorded nothing
  std::optional<int64_t> ended_well_ns;    // exit with 0
  std::optional<int64_t> verdict_ns;       // its attempt failed then
  std::vector<Claim> spans;                // by name, without collectives
  std::vector<CollectiveRun> collectives;
  std::vector<StepRun> steps;  // in order of begin
};

struct LedgerInput {
  int32_t ranks = 0;
  int64_t launch_ns = 0;
  int64_t end_ns = 0;  // of the job, or the moment of looking
  bool ended = false;  // false: it still runs, and uncommitted steps count as steps
  bool succeeded = false;
  std::vector<RankLife> lives;
  std::map<int32_t, int64_t> started_from;  // attempt -> step of the state it started from
  std::optional<int64_t> committed_step;    // newest durable checkpoint
};

struct Ledger {
  int32_t ranks = 0;
  int64_t launch_ns = 0, end_ns = 0;
  LeafTimes times{};
  std::vector<LeafTimes> by_rank;
  std::map<int32_t, LeafTimes> by_attempt;  // a rank's time until its next placement

  int64_t total() const { return ranks * (end_ns - launch_ns); }
  int64_t at(Leaf leaf) const { return times[static_cast<size_t>(leaf)]; }
  int64_t step_total() const;
  // Kept step time / all time; 0 of an empty job.
  double goodput() const;
};

// `input.lives` in any order.
Ledger make_ledger(const LedgerInput& input);

// {"queue": 0, "provision": …, …, "total": …}: integers, nanoseconds.
nlohmann::ordered_json ledger_json(const Ledger& ledger);

}  // namespace muster
