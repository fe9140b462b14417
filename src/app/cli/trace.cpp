// muster trace export RUN_DIR -o FILE: the recorded spans of a run as a Perfetto trace.
#include <fmt/format.h>

#include <cstdio>

#include "app/cli/options.h"
#include "app/cli/verb.h"
#include "base/units.h"
#include "insight/export/perfetto.h"
#include "store/event_log.h"
#include "sys/real_files.h"
#include "trace/segment.h"

namespace muster {

int trace_main(World& world, const std::vector<std::string>& arguments);

namespace {

PerfettoEvent as_perfetto(const Event& e) {
  PerfettoEvent out{.time_ns = e.monotonic.count(), .name = e.kind};
  if (e.attempt >= 0) out.notes.emplace_back("attempt", std::to_string(e.attempt));
  if (e.rank >= 0) out.notes.emplace_back("rank", std::to_string(e.rank));
  for (const auto& [key, value] : e.payload.items())
    out.notes.emplace_back(
        key, value.is_string()
                 ? value.get<std::string>()
                 : value.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
  return out;
}

struct Exported {
  PerfettoTrace trace;
  size_t processes = 0;
  uint64_t overrun = 0;
  std::vector<std::string> problems;
};

Result<Exported> export_run(const std::string& run_dir) {
  RealFiles files(run_dir);
  Exported out;
  MUSTER_TRY(const std::vector<TraceData> processes, read_segments(files, out.problems));
  std::vector<PerfettoEvent> events;
  int64_t wall_minus_monotonic = processes.empty() ? 0 : processes.back().realtime_offset_ns;
  const auto log = EventLog::open_read_only(run_dir + "/events.sqlite");
  if (log.ok()) {
    MUSTER_TRY(const std::vector<Event> recorded, log->query({}));
    for (const Event& e : recorded) events.push_back(as_perfetto(e));
    if (!recorded.empty())
      wall_minus_monotonic = (recorded.back().wall - recorded.back().monotonic).count();
  } else if (processes.empty()) {
    return log.error();  // neither traces nor events: not a run
  } else {
    out.problems.push_back(log.error().to_string());
  }
  for (const TraceData& p : processes) {
    out.overrun += p.overrun;
    if (p.skipped_bytes > 0)
      out.problems.push_back(fmt::format("{}: {} damaged bytes were passed over",
                                         segment_path(p.attempt, p.rank), p.skipped_bytes));
  }
  out.processes = processes.size();
  out.trace = perfetto_trace({processes, events, wall_minus_monotonic});
  return out;
}

int export_main(const std::vector<std::string>& arguments) {
  std::string run_dir, file;
  bool json = false;
  Options options("trace export", "Writes the recorded spans of a run as a Perfetto trace.");
  options.positional("RUN_DIR", run_dir, "directory of a run, finished or live");
  options.value("-o,--output", file, "file to write; open it at ui.perfetto.dev");
  options.flag("--json", json, "print one JSON object with what was written");
  options.footer(
      "Exit codes: 0 written, 1 the run cannot be read or the file not written, 2 wrong usage.");
  if (const auto code = options.parse(arguments)) return *code;
  if (file.empty()) {
    fmt::print(stderr, "muster trace export: -o FILE is missing; see muster trace export --help\n");
    return kExitUsage;
  }
  const auto exported = export_run(run_dir);
  if (!exported.ok()) {
    fmt::print(stderr, "muster trace export: {}\n", exported.error().to_string());
    return kExitFailed;
  }
  RealFiles anywhere("");
  const Status written = write_file_durably(anywhere, file, exported->trace.bytes);
  if (!written.ok()) {
    fmt::print(stderr, "muster trace export: {}\n", written.error().to_string());
    return kExitFailed;
  }
  for (const std::string& problem : exported->problems)
    fmt::print(stderr, "muster trace export: {}\n", problem);
  const PerfettoCounts& counts = exported->trace.counts;
  const auto bytes = static_cast<int64_t>(exported->trace.bytes.size());
  if (json) {
    const nlohmann::ordered_json result = {{"file", file},
                                           {"bytes", bytes},
                                           {"processes", exported->processes},
                                           {"slices", counts.slices},
                                           {"unfinished", counts.unfinished},
                                           {"instants", counts.instants},
                                           {"counters", counts.counters},
                                           {"lost_records", exported->overrun},
                                           {"problems", exported->problems}};
    fmt::print("{}\n", result.dump());
  } else {
    fmt::print("{}: {}, {} processes, {} slices, {} instants, {} counter values{}\n", file,
               format_bytes(Bytes{bytes}), exported->processes, counts.slices, counts.instants,
               counts.counters,
               exported->overrun > 0
                   ? fmt::format("; {} records were lost to full rings", exported->overrun)
                   : std::string());
  }
  return kExitOk;
}

}  // namespace

int trace_main(World&, const std::vector<std::string>& arguments) {
  if (!arguments.empty() && arguments[0] == "export")
    return export_main({arguments.begin() + 1, arguments.end()});
  const bool help = !arguments.empty() && (arguments[0] == "-h" || arguments[0] == "--help");
  fmt::print(help ? stdout : stderr,
             "usage: muster trace export RUN_DIR -o FILE\n\n"
             "  export   write the recorded spans of a run as a Perfetto trace\n\n"
             "Exit codes: 0 done, 1 failed, 2 wrong usage.\n");
  return help ? kExitOk : kExitUsage;
}

}  // namespace muster
