// Text and JSON of what a job ended with.
#include <nlohmann/json.hpp>

#include "runtime/supervise/job_spec.h"

namespace muster {

std::string_view cause_name(CauseKind kind) {
  switch (kind) {
    case CauseKind::none:
      return "none";
    case CauseKind::out_of_memory:
      return "out_of_memory";
    case CauseKind::fatal_signal:
      return "fatal_signal";
    case CauseKind::start_failed:
      return "start_failed";
    case CauseKind::error_file:
      return "error_file";
    case CauseKind::exit_code:
      return "exit_code";
    case CauseKind::hang:
      return "hang";
    case CauseKind::supervision_lost:
      return "supervision_lost";
  }
  return "none";
}

std::string Cause::to_string() const {
  std::string text;
  if (kind == CauseKind::supervision_lost) {
    text = "first cause: " + reason;
  } else {
    text = "first cause: rank " + std::to_string(rank.value);
    if (pid > 0) text += " (pid " + std::to_string(pid) + ")";
    text += " of attempt " + std::to_string(attempt.value) + " " + reason;
  }
  if (culprits.size() > 1) {
    text += "\n  as did rank";
    text += culprits.size() > 2 ? "s" : "";
    for (size_t i = 1; i < culprits.size(); ++i) text += " " + std::to_string(culprits[i]);
  }
  if (collateral > 0)
    text += "\n  " + std::to_string(collateral) + " other bad exit" + (collateral > 1 ? "s" : "") +
            " followed from it";
  if (!last_lines.empty()) {
    text += "\n  its last lines:";
    for (const std::string& line : last_lines) text += "\n  | " + line;
  }
  return text;
}

static nlohmann::json to_json_value(const Cause& cause) {
  return {{"kind", cause_name(cause.kind)}, {"rank", cause.rank.value},
          {"attempt", cause.attempt.value}, {"pid", cause.pid},
          {"exit_code", cause.exit.code},   {"signal", cause.exit.signal},
          {"reason", cause.reason},         {"last_lines", cause.last_lines},
          {"culprits", cause.culprits},     {"collateral", cause.collateral}};
}

static double seconds(Nanos time) {
  return std::chrono::duration<double>(time).count();
}

std::string JobReport::to_json() const {
  nlohmann::json json;
  json["exit_code"] = exit_code;
  json["first_cause"] = first_cause ? to_json_value(*first_cause) : nlohmann::json(nullptr);
  json["verdict"] = verdict;
  json["restarts"] = restarts;
  json["causes"] = nlohmann::json::array();
  for (const Cause& cause : causes) json["causes"].push_back(to_json_value(cause));
  json["log_directory"] = log_directory;
  json["dropped_lines"] = dropped_lines;
  json["ranks"] = nlohmann::json::array();
  for (const RankReport& rank : ranks) {
    json["ranks"].push_back({{"rank", rank.rank.value},
                             {"pid", rank.pid},
                             {"started", rank.started},
                             {"exit_code", rank.exit.code},
                             {"signal", rank.exit.signal},
                             {"killed_by_us", rank.by_us},
                             {"restarts", rank.restarts},
                             {"user_s", seconds(rank.exit.user)},
                             {"system_s", seconds(rank.exit.system)},
                             {"max_rss_bytes", rank.exit.max_rss_bytes}});
  }
  // Output of ranks may hold any bytes; JSON may not.
  return json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

}  // namespace muster
