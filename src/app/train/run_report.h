// Puts together what a finished training run has to show: ReportInput (insight/report) from the
// files of its directory, and the JSON object of `muster train --json`.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "app/train/prepare_run.h"
#include "insight/report/report.h"
#include "runtime/supervise/job_spec.h"
#include "sys/files.h"
#include "train/loop/run_directory.h"

namespace muster {

struct RunFacts {
  RunDirectory run;
  std::string title;
  JobReport job;
  std::vector<SettingOrigin> settings;
  std::vector<ReportFact> environment;
  std::vector<std::string> problems;
  int64_t workers = 0;
};

struct RunSummary {
  ReportInput report;
  nlohmann::ordered_json json;
};

// The job's exit code; 128 + n when signal n ended the run before its last step, although its
// workers saved their state and left as told.
int train_exit_code(Files& files, const RunDirectory& run, const JobReport& job);

// Reads step log, event log, traces and result.json. What cannot be read is a problem in the
// report, not an error.
RunSummary summarize_run(Files& files, const RunFacts& facts);

}  // namespace muster
