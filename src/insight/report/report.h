// Report: what a run did, on one page, for people: report.html (self-contained: inline SVG and
// style, no script, nothing loaded from elsewhere, light and dark) and report.md. Pure functions of
// ReportInput, which the caller fills; a part without data says so or is left out. Any text of the
// input may hold any characters: it is escaped.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "insight/ledger/ledger.h"
#include "insight/ledger/mfu.h"
#include "insight/ledger/timeline.h"

namespace muster {

struct ReportStep {
  int64_t step = 0;  // counted from 1, rising
  double loss_nats = 0;
  double seconds = 0;
  int64_t tokens = 0;
  int32_t attempt = 0;
  bool skipped = false;  // not finite: nothing was updated
};

struct ReportValidation {
  int64_t step = 0;
  double loss_nats = 0;
};

// Duration of one execution of a step on one rank. If a step was executed more than once, the last
// one counts.
struct ReportRankStep {
  int32_t rank = 0;
  int64_t step = 0;
  double seconds = 0;
};

// Rank-seconds that one failure cost, by what they went to.
struct ReportRestart {
  int32_t attempt = 0;
  int32_t rank = -1;
  double at_seconds = 0;  // verdict, since launch
  std::string cause, message;
  bool restarted = false;
  std::optional<int64_t> started_from;  // step
  double detection = 0;                 // hang
  double restart = 0;                   // evict + init of the next attempt
  double reload = 0;                    // restore of the next attempt
  double rework = 0;
};

struct ReportSetting {
  std::string key, value, origin;
};

struct ReportSample {
  std::string title;         // "completion", "infill"
  std::string before, text;  // the prompt or prefix, and what the model wrote
  std::string after;         // the suffix of an infill
};

struct ReportFact {
  std::string name, value;
};

struct ReportInput {
  std::string title;  // "code-tiny"
  std::string run_dir;
  std::string started;  // date and time, as text
  std::string outcome;  // one sentence

  std::optional<double> final_loss_nats, validation_bits_per_byte;
  std::optional<double> tokens_per_second;
  std::optional<Mfu> mfu;
  int64_t tokens = 0;

  std::vector<ReportStep> steps;
  std::vector<ReportValidation> validations;
  std::vector<ReportRankStep> rank_steps;
  Ledger ledger;
  std::vector<ReportRestart> restarts;
  std::vector<ReportSetting> configuration;
  std::vector<ReportSample> samples;
  // What the numbers depend on, as the newest checkpoint records it: mode, orders, kernel choices.
  std::vector<ReportFact> numerics;
  std::vector<ReportFact> environment;
  std::vector<std::string> problems;  // what the report had to do without
};

std::string report_html(const ReportInput& input);
std::string report_markdown(const ReportInput& input);

// Fills ledger, restarts, rank_steps and problems from a timeline.
void add_timeline(ReportInput& input, const JobTimeline& timeline);

}  // namespace muster
