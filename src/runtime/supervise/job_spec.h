// JobSpec: what to run, how to restart it and where its output goes; JobReport: how it ended.
// Plain values. The supervisor (supervisor.h) executes a spec.
#pragma once

#include <csignal>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/ids.h"
#include "sys/spawner.h"
#include "trace/region.h"

namespace muster {

enum class RestartScope {
  never,
  rank,   // only the rank that failed starts again; the others go on
  group,  // all ranks stop and start again as a new attempt
};

// How ranks that must go are stopped.
struct StopPolicy {
  // Sent to each rank's process group when another rank failed. SIGKILL: no grace at all (ranks
  // that can be rebuilt from a checkpoint).
  int fail_signal = SIGTERM;
  Nanos fail_grace = std::chrono::milliseconds{50};  // from fail_signal to SIGKILL
  // From the operator's signal, which is passed on as it came, to SIGKILL.
  Nanos stop_grace = std::chrono::milliseconds{500};
};

struct RestartPolicy {
  RestartScope scope = RestartScope::never;
  int max_restarts = 0;
  // So many attempts in a row that do not pass the best step ever reached end the job with a
  // verdict. Counted only for ranks that report progress; 0 = no such rule.
  int attempts_without_progress = 3;
  // A rank that exits with this code asks not to be started again.
  int no_restart_code = 93;
};

// Silence that counts as a hang (hang_judge.h); needs progress pages.
struct HangPolicy {
  bool enabled = false;
  Nanos least = std::chrono::seconds{5};
  double times_p99 = 5.0;
  // Before the first step is done nothing is learned yet; a start may take this long.
  Nanos start_limit = std::chrono::seconds{120};
  Nanos confirm = std::chrono::seconds{1};
};

enum class StreamTarget : uint8_t {
  inherit,  // the worker writes to the supervisor's own stream; nothing is read
  discard,  // /dev/null
  capture,  // through a pipe, to a file and/or the terminal
};

struct LogPolicy {
  StreamTarget out = StreamTarget::capture;
  StreamTarget err = StreamTarget::capture;
  bool files = true;      // <directory>/attempt_N/<rank>/{stdout,stderr}.log for captured streams
  std::string directory;  // required with `files`; made when first needed
  bool make_directories_first = false;  // attempt_N/<rank>/ for every rank, used or not
  bool terminal = true;                 // captured lines also go to the supervisor's own streams
  // Where captured lines go when `terminal`.
  int out_fd = 1;
  int err_fd = 2;
  // ${rank}, ${local_rank} and ${role_name} are replaced.
  std::string label = "[${rank}] ";
  // Per rank, for torchrun's -r, -t and --local-ranks-filter; they take the place of out, err,
  // files and terminal for that rank.
  struct PerRank {
    StreamTarget out, err;
    bool out_file, err_file;
    bool out_terminal, err_terminal;
  };
  std::map<int32_t, PerRank> ranks;
};

// What torchrun's environment needs and the job itself does not say (rendezvous/torchrun_env.h).
struct TorchrunSettings {
  std::string role = "default";
  std::string run_id = "none";
  std::string master_addr = "localhost";
  uint16_t master_port = 0;  // 0 = any free one
  // TORCHELASTIC_ERROR_FILE = <log directory>/attempt_N/<rank>/error.json
  bool error_files = false;
  bool virtual_local_rank = false;
  std::vector<std::string> signals_to_handle = {"SIGTERM", "SIGINT", "SIGHUP", "SIGQUIT"};
};

struct JobSpec {
  int ranks = 1;
  // ${local_rank} in the arguments after the program is replaced when `replace_local_rank`.
  std::vector<std::string> command;
  bool replace_local_rank = false;
  // Not empty: this command is started once, warms up and ranks are forked from it
  // (template_server.h); `command` is what they get as argv.
  std::vector<std::string> template_command;
  // A template that has not forked a rank by then is killed, and the job ends (exit code 124).
  Nanos template_limit = std::chrono::minutes{5};
  std::string directory;                           // empty = the supervisor's
  std::map<std::string, std::string> environment;  // base of every rank
  bool stdin_to_all = false;  // torchrun: all ranks share stdin; otherwise only rank 0 has it

  RestartPolicy restart;
  StopPolicy stop;
  HangPolicy hang;
  LogPolicy logs;
  std::optional<TorchrunSettings> torchrun = TorchrunSettings{};  // none: no rendezvous, no store

  // Each rank gets a trace region (trace/region.h) of its own as descriptor 3, its number in
  // MUSTER_TRACE_FD; a new one for every start of a rank. `rank` and `attempt` are filled in.
  std::optional<TraceRegionOptions> trace;
  Nanos tick = std::chrono::milliseconds{200};  // how often pages are read and `ticked` is called

  std::vector<int> stop_signals = {SIGINT, SIGTERM, SIGHUP, SIGQUIT};  // stop the job
};

// Why an attempt ended badly, and with which evidence (blame.h).
enum class CauseKind {
  none,
  out_of_memory,
  fatal_signal,
  start_failed,
  error_file,
  exit_code,
  hang,
  supervision_lost,  // the keeper died
};
std::string_view cause_name(CauseKind kind);

struct Cause {
  CauseKind kind = CauseKind::none;
  Rank rank;
  Attempt attempt;
  pid_t pid = 0;
  ExitInfo exit;
  std::string reason;                   // one line
  std::vector<std::string> last_lines;  // of the rank's standard error, else of its output
  std::vector<int32_t> culprits;        // ranks with the same strongest evidence, `rank` first
  int collateral = 0;                   // other bad exits that were not ours
  int exit_code = 1;                    // what the job exits with
  std::string to_string() const;        // one message, several lines
};

struct RankReport {
  Rank rank;
  pid_t pid = 0;
  bool started = false;
  bool ended = false;
  bool by_us = false;  // ended after a kill of ours
  ExitInfo exit;
  int restarts = 0;
};

struct JobReport {
  int exit_code = 0;
  std::optional<Cause> first_cause;  // of the last attempt that failed
  int stop_signal = 0;               // the operator's, if the job was told to stop
  std::string verdict;               // "done", "failed", "restart loop without progress", …
  int restarts = 0;
  std::vector<Cause> causes;  // one per attempt that failed, oldest first
  std::vector<RankReport> ranks;
  std::string log_directory;  // empty: no log files
  int64_t dropped_lines = 0;  // readers were too slow or a disk full
  std::string to_json() const;
};

// Exit codes of a job besides those of its ranks (128 + n for signal n).
inline constexpr int kExitHang = 124;
inline constexpr int kExitSupervisionLost = 125;
inline constexpr int kExitNotExecutable = 126;
inline constexpr int kExitNotFound = 127;

}  // namespace muster
