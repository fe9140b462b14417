#include "runtime/supervise/blame.h"

#include <cstring>

#include <algorithm>
#include <cerrno>
#include <nlohmann/json.hpp>

#include "base/check.h"

namespace muster {
namespace {

constexpr std::string_view kPeerLoss[] = {
    "Connection reset by peer",
    "Connection closed by peer",
    "Broken pipe",
    "Socket closed by peer",
    "connectFullMesh",
    "remote process exited",
    "remote error",
    "Watchdog caught collective",
    "DistNetworkError",
    "peer_lost",
    "Connection refused",
    "failed to recv, got 0 bytes",
};

bool is_collateral(const ExitEvidence& evidence) {
  if (evidence.out_of_memory || !evidence.start_error.empty()) return false;
  if (evidence.exit.signal == SIGPIPE) return true;
  // A peer's loss ends in an exit code or an abort, never in, say, a segmentation fault.
  const int signal = evidence.exit.signal;
  return (signal == 0 || signal == SIGABRT) && looks_like_peer_loss(evidence.last_lines);
}

int strength(const ExitEvidence& evidence) {
  if (is_collateral(evidence)) return 0;
  switch (evidence_kind(evidence)) {
    case CauseKind::out_of_memory:
      return 5;
    case CauseKind::fatal_signal:
      return 4;
    case CauseKind::start_failed:
      return 3;
    case CauseKind::error_file:
      return 2;
    default:
      return 1;
  }
}

std::string reason_of(const ExitEvidence& evidence, CauseKind kind) {
  switch (kind) {
    case CauseKind::out_of_memory:
      return "killed by the kernel for lack of memory (SIGKILL)";
    case CauseKind::fatal_signal:
      return "died by " + signal_name(evidence.exit.signal) +
             (evidence.exit.core ? ", core dumped" : "");
    case CauseKind::start_failed:
      return "could not be started: " + evidence.start_error;
    case CauseKind::error_file:
      return "exited with code " + std::to_string(evidence.exit.code) + ": " +
             evidence.error_message;
    default:
      return "exited with code " + std::to_string(evidence.exit.code);
  }
}

}  // namespace

bool looks_like_peer_loss(const std::vector<std::string>& last_lines) {
  // The final words count: an earlier warning may be about something that was survived.
  const size_t from = last_lines.size() > 15 ? last_lines.size() - 15 : 0;
  for (size_t i = from; i < last_lines.size(); ++i)
    for (std::string_view pattern : kPeerLoss)
      if (last_lines[i].find(pattern) != std::string::npos) return true;
  return false;
}

CauseKind evidence_kind(const ExitEvidence& evidence) {
  if (!evidence.start_error.empty()) return CauseKind::start_failed;
  if (evidence.exit.signal != 0)
    return evidence.out_of_memory ? CauseKind::out_of_memory : CauseKind::fatal_signal;
  return evidence.error_message.empty() ? CauseKind::exit_code : CauseKind::error_file;
}

Cause choose_cause(const std::vector<ExitEvidence>& wave, Attempt attempt) {
  MUSTER_CHECK(!wave.empty());
  std::vector<const ExitEvidence*> order;
  for (const ExitEvidence& evidence : wave) order.push_back(&evidence);
  std::stable_sort(order.begin(), order.end(), [](const auto* a, const auto* b) {
    return strength(*a) != strength(*b) ? strength(*a) > strength(*b) : a->at < b->at;
  });
  const ExitEvidence& first = *order.front();
  Cause cause;
  cause.kind = evidence_kind(first);
  cause.rank = Rank{first.rank};
  cause.attempt = attempt;
  cause.pid = first.pid;
  cause.exit = first.exit;
  cause.reason = reason_of(first, cause.kind);
  if (is_collateral(first)) cause.reason += "; it looks like the loss of a peer that has not ended";
  cause.last_lines = first.last_lines;
  cause.exit_code = first.exit.shell_code();
  if (cause.kind == CauseKind::start_failed)
    cause.exit_code = first.start_errno == ENOENT      ? kExitNotFound
                      : first.start_errno == EACCES    ? kExitNotExecutable
                      : first.start_errno == ETIMEDOUT ? kExitHang
                                                       : 1;
  for (const ExitEvidence* other : order) {
    if (strength(*other) == strength(first))
      cause.culprits.push_back(other->rank);
    else
      ++cause.collateral;
  }
  return cause;
}

std::string signal_name(int signal_number) {
  const char* name = sigabbrev_np(signal_number);
  if (name != nullptr) return std::string("SIG") + name;
  return "signal " + std::to_string(signal_number);
}

std::string error_file_message(std::string_view text) {
  const nlohmann::json json = nlohmann::json::parse(text, nullptr, false);
  if (!json.is_object() || !json.contains("message")) return {};
  const nlohmann::json& message = json["message"];
  if (message.is_string()) return message.get<std::string>();
  if (message.is_object() && message.contains("message") && message["message"].is_string())
    return message["message"].get<std::string>();
  return {};
}

}  // namespace muster
