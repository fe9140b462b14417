// muster goodput RUN_DIR: where the time of a run went.
#include <fmt/format.h>

#include <cstdio>

#include "app/cli/options.h"
#include "app/cli/verb.h"
#include "base/units.h"
#include "insight/ledger/ledger.h"
#include "insight/ledger/run_records.h"
#include "sys/real_files.h"

namespace muster {

int goodput_main(World& world, const std::vector<std::string>& arguments);

namespace {

double share(int64_t part, int64_t whole) {
  return whole == 0 ? 0 : 100.0 * static_cast<double>(part) / static_cast<double>(whole);
}

std::string state_of(const RunRecords& records, const JobTimeline& timeline) {
  if (timeline.ledger.ended) return timeline.ledger.succeeded ? "succeeded" : "failed";
  return records.live ? "running" : "lost";
}

void print_table(const Ledger& ledger, const RunRecords& records, const JobTimeline& timeline) {
  fmt::print("{} rank{}, {} from launch to {}, {} restart{}, {}\n\n", ledger.ranks,
             ledger.ranks == 1 ? "" : "s", format_duration(Nanos{ledger.end_ns - ledger.launch_ns}),
             timeline.ledger.ended ? "end" : "now", timeline.restarts(),
             timeline.restarts() == 1 ? "" : "s", state_of(records, timeline));
  fmt::print("{:<24}{:>16}{:>10}  {}\n", "leaf", "rank-seconds", "share", "meaning");
  for (const Leaf leaf : leaves_in_reading_order()) {
    const int64_t ns = ledger.at(leaf);
    if (ns == 0) continue;
    fmt::print("{:<24}{:>16.6f}{:>9.2f}%  {}\n", leaf_name(leaf), static_cast<double>(ns) * 1e-9,
               share(ns, ledger.total()), leaf_meaning(leaf));
  }
  fmt::print("{:<24}{:>16.6f}{:>9.2f}%\n\n", "total", static_cast<double>(ledger.total()) * 1e-9,
             100.0);
  fmt::print("goodput {:.2f} % (kept step time / all rank-seconds from launch)\n",
             ledger.goodput() * 100);
}

nlohmann::ordered_json as_json(const std::string& run_dir, const Ledger& ledger,
                               const RunRecords& records, const JobTimeline& timeline) {
  nlohmann::ordered_json json = {
      {"run_dir", run_dir},          {"state", state_of(records, timeline)},
      {"ranks", ledger.ranks},       {"launch_ns", ledger.launch_ns},
      {"end_ns", ledger.end_ns},     {"restarts", timeline.restarts()},
      {"goodput", ledger.goodput()}, {"ledger", ledger_json(ledger)}};
  json["by_rank"] = nlohmann::ordered_json::array();
  for (const LeafTimes& times : ledger.by_rank) {
    nlohmann::ordered_json rank;
    for (const Leaf leaf : leaves_in_reading_order())
      rank[std::string(leaf_name(leaf))] = times[static_cast<size_t>(leaf)];
    json["by_rank"].push_back(rank);
  }
  json["failures"] = nlohmann::ordered_json::array();
  for (const RestartFacts& f : timeline.failures)
    json["failures"].push_back(
        {{"attempt", f.attempt}, {"rank", f.culprit}, {"cause", f.cause}, {"message", f.message}});
  json["problems"] = timeline.problems;
  return json;
}

}  // namespace

int goodput_main(World& world, const std::vector<std::string>& arguments) {
  std::string run_dir;
  bool json = false;
  Options options("goodput",
                  "Shows where every rank-second of a run went, from launch to its end or to now.");
  options.positional("RUN_DIR", run_dir, "directory of a run, finished or live");
  options.flag("--json", json, "print one JSON object; times are integer nanoseconds");
  options.footer(
      "Of a directory that was resumed, the newest job is shown.\n"
      "Exit codes: 0 shown, 1 the directory cannot be read, 2 wrong usage.");
  if (const auto code = options.parse(arguments)) return *code;

  RealFiles files(run_dir);
  const auto records = read_run(files, run_dir);
  if (!records.ok()) {
    fmt::print(stderr, "muster goodput: {}\n", records.error().to_string());
    return kExitFailed;
  }
  const auto timeline = newest_timeline(*records, world.clock.now());
  if (!timeline.ok()) {
    fmt::print(stderr, "muster goodput: {}\n", timeline.error().to_string());
    return kExitFailed;
  }
  const Ledger ledger = make_ledger(timeline->ledger);
  for (const std::string& problem : timeline->problems)
    fmt::print(stderr, "muster goodput: {}\n", problem);
  if (json)
    fmt::print("{}\n", as_json(run_dir, ledger, *records, *timeline).dump());
  else
    print_table(ledger, *records, *timeline);
  return kExitOk;
}

}  // namespace muster
