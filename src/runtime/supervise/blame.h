// Who is to blame: chooses the first cause among the exits of the first wave, by strength of
// evidence. Pure. Exits after a kill of ours never get here.
//
// Order: out of memory, fatal signal, failed start, error file, other exit code; an exit that looks
// like the loss of a peer (reset connection, broken pipe, watchdog of a collective) is collateral
// unless nothing better is known. Time only breaks ties.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "runtime/supervise/job_spec.h"

namespace muster {

struct ExitEvidence {
  int32_t rank = 0;
  pid_t pid = 0;
  ExitInfo exit;
  std::string start_error;  // not empty: it never ran
  int start_errno = 0;
  bool out_of_memory = false;  // the kernel killed for memory about then
  std::string error_message;   // of the error file, if there is one
  std::vector<std::string> last_lines;
  Nanos at{0};
};

// What the lines of a rank that lost a peer look like.
bool looks_like_peer_loss(const std::vector<std::string>& last_lines);

CauseKind evidence_kind(const ExitEvidence& evidence);

// `wave` is not empty.
Cause choose_cause(const std::vector<ExitEvidence>& wave, Attempt attempt);

// "SIGSEGV", "signal 60".
std::string signal_name(int signal_number);

// The message of an error file as torchelastic writes it: {"message": text or {"message": text}}.
// Empty if it is none.
std::string error_file_message(std::string_view json);

}  // namespace muster
