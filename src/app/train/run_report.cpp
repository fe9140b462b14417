#include "app/train/run_report.h"

#include <fmt/format.h>
#include <signal.h>

#include <algorithm>
#include <ctime>

#include "ckpt/reader.h"
#include "ckpt/scan.h"
#include "runtime/supervise/blame.h"
#include "store/event_log.h"
#include "sys/real_files.h"
#include "trace/segment.h"
#include "train/loop/step_log.h"

namespace muster {
namespace {

std::string date_of(int64_t wall_ns) {
  const time_t seconds = wall_ns / 1'000'000'000;
  tm utc{};
  gmtime_r(&seconds, &utc);
  return fmt::format("{:04}-{:02}-{:02} {:02}:{:02}:{:02} UTC", utc.tm_year + 1900, utc.tm_mon + 1,
                     utc.tm_mday, utc.tm_hour, utc.tm_min, utc.tm_sec);
}

nlohmann::json read_result(Files& files, const RunDirectory& run) {
  const auto text = read_file(files, run.result());
  if (!text.ok()) return nlohmann::json::object();
  const auto json = nlohmann::json::parse(*text, nullptr, false);
  return json.is_object() ? json : nlohmann::json::object();
}

// The newest job of the directory.
Result<JobTimeline> read_timeline(const RunDirectory& run, std::vector<std::string>& problems) {
  MUSTER_TRY(const EventLog log, EventLog::open_read_only(run.events()));
  MUSTER_TRY(const std::vector<Event> events, log.query({}));
  const auto jobs = split_jobs(events);
  if (jobs.empty()) return Error(Code::not_found, "the event log holds no job");
  RealFiles root(run.root());
  MUSTER_TRY(const std::vector<TraceData> traces, read_segments(root, problems));
  return make_timeline(jobs.back(), traces, 0);
}

std::vector<ReportFact> numerics_facts(const Numerics& numerics) {
  std::vector<ReportFact> facts = {
      {"mode", numerics.mode},
      {"K-blocks of a matrix product", std::to_string(numerics.k_blocks)},
      {"micro-batches a step", std::to_string(numerics.micro_batches)}};
  for (const auto& [name, value] : numerics.choices) facts.push_back({name, value});
  return facts;
}

struct Rates {
  double seconds = 0, flops = 0, peak_seconds = 0;
  int64_t tokens = 0;
};

template <class T>
nlohmann::ordered_json or_null(const std::optional<T>& value) {
  return value ? nlohmann::ordered_json(*value) : nlohmann::ordered_json(nullptr);
}

}  // namespace

int train_exit_code(Files& files, const RunDirectory& run, const JobReport& job) {
  if (job.exit_code != 0 || read_result(files, run).value("complete", false)) return job.exit_code;
  return job.stop_signal != 0 ? 128 + job.stop_signal : job.exit_code;
}

RunSummary summarize_run(Files& files, const RunFacts& facts) {
  RunSummary summary;
  ReportInput& report = summary.report;
  const nlohmann::json result = read_result(files, facts.run);
  report.title = facts.title;
  report.run_dir = facts.run.root();
  report.problems = facts.problems;
  report.environment = facts.environment;
  for (const SettingOrigin& s : facts.settings)
    report.configuration.push_back({s.key, s.value, s.origin});

  Rates rates;
  std::vector<StepRecord> steps;
  if (const auto text = read_file(files, facts.run.steps()); text.ok()) {
    int64_t skipped = 0;
    steps = parse_step_log(*text, &skipped);
    if (skipped > 0)
      report.problems.push_back(fmt::format("{} lines of the step log were not readable", skipped));
  }
  for (const StepRecord& r : steps) {
    report.steps.push_back({r.step, r.loss, r.seconds, r.tokens, r.attempt, r.skipped});
    rates.seconds += r.seconds;
    rates.flops += r.model_flops;
    rates.peak_seconds += r.peak_flops_per_second * r.seconds;
    rates.tokens += r.tokens;
  }
  report.tokens = rates.tokens;
  if (rates.seconds > 0)
    report.tokens_per_second = static_cast<double>(rates.tokens) / rates.seconds;
  if (rates.peak_seconds > 0)
    report.mfu = Mfu{"exact/measured-peak", rates.flops / rates.peak_seconds};
  if (!steps.empty()) report.final_loss_nats = steps.back().loss;
  if (result.contains("validation_bits_per_byte") &&
      result["validation_bits_per_byte"].is_number()) {
    report.validation_bits_per_byte = result["validation_bits_per_byte"].get<double>();
    report.validations.push_back(
        {result.value("steps", int64_t{0}), result.value("validation_loss", 0.0)});
  }
  if (result.contains("samples") && result["samples"].is_array()) {
    for (const auto& s : result["samples"]) {
      report.samples.push_back(
          {s.value("title", ""), s.value("before", ""), s.value("text", ""), s.value("after", "")});
    }
  }
  auto timeline = read_timeline(facts.run, report.problems);
  if (timeline.ok()) {
    report.started = date_of(timeline->launch_wall_ns);
    add_timeline(report, *timeline);
  } else {
    report.problems.push_back("no ledger: " + timeline.error().to_string());
  }
  const int64_t done = steps.empty() ? 0 : steps.back().step;
  report.outcome = facts.job.exit_code == 0
                       ? fmt::format("{} steps on {} workers, {} restarts", done, facts.workers,
                                     facts.job.restarts)
                       : fmt::format("ended after step {} with exit code {}: {}", done,
                                     facts.job.exit_code, facts.job.verdict);

  nlohmann::ordered_json& json = summary.json;
  json["run_dir"] = facts.run.root();
  json["steps"] = done;
  json["tokens"] = result.value("tokens", rates.tokens);
  json["loss"] = or_null(report.final_loss_nats);
  json["validation_bits_per_byte"] = or_null(report.validation_bits_per_byte);
  json["tokens_per_second"] = or_null(report.tokens_per_second);
  json["mfu"] = report.mfu ? nlohmann::ordered_json{{"label", report.mfu->label},
                                                    {"value", report.mfu->value}}
                           : nlohmann::ordered_json(nullptr);
  json["skipped_steps"] =
      std::count_if(steps.begin(), steps.end(), [](const StepRecord& r) { return r.skipped; });
  json["restarts"] = facts.job.restarts;
  std::string checkpoint = result.value("checkpoint", "");
  if (checkpoint.empty()) {
    const auto newest = newest_whole_checkpoint(files, facts.run.checkpoints());
    if (newest.ok()) checkpoint = newest->folder;
  }
  json["checkpoint"] = checkpoint;
  if (!checkpoint.empty()) {
    const auto manifest = read_manifest(files, checkpoint);
    if (manifest.ok())
      report.numerics = numerics_facts(manifest->numerics);
    else
      report.problems.push_back("no numerics: " + manifest.error().to_string());
  }
  json["digest"] = result.value("digest", "");
  json["exit_code"] = facts.job.exit_code;
  json["ledger"] = ledger_json(report.ledger);
  return summary;
}

}  // namespace muster
