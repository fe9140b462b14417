// torchrun's command line (torch 2.13) as a typed value: a pure parser of arguments and PET_*
// defaults. Any flag F has the environment default PET_F (upper case, dashes as underscores; not
// --logs-specs and --numa-binding); a flag beats the environment. Underscore spellings,
// --flag=value, unambiguous prefixes and joined short flags (-r3) are accepted. Parsing stops at
// the script.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "runtime/rendezvous/torchrun_env.h"

namespace muster {

// Which streams of a worker go to files (redirects) or to files and the terminal (tee).
enum class StreamSet { none = 0, out = 1, err = 2, both = 3 };

struct StreamRule {
  StreamSet everyone = StreamSet::none;
  std::map<int32_t, StreamSet> by_local_rank;  // "0:1,3:2": the others have none
  StreamSet of(int32_t local_rank) const {
    const auto it = by_local_rank.find(local_rank);
    return it == by_local_rank.end() ? everyone : it->second;
  }
};

struct TorchrunFlags {
  enum class ProcessCount { number, cpu, gpu, xpu, automatic };
  enum class Entry { script, module, program, function };  // -m, --no-python, --run-path

  int32_t min_nodes = 1, max_nodes = 1;
  ProcessCount processes = ProcessCount::number;
  int32_t nproc_per_node = 1;  // when processes == number
  std::string rdzv_backend = "static";
  std::string rdzv_endpoint;
  std::string rdzv_id = "none";
  std::map<std::string, std::string> rdzv_conf;
  bool standalone = false;  // as asked; see is_local_job
  int32_t max_restarts = 0;
  Nanos monitor_interval = std::chrono::milliseconds{100};
  std::string start_method = "spawn";
  std::string event_log_handler = "null";
  std::string role = "default";
  Entry entry = Entry::script;
  std::string log_dir;  // empty = a temporary folder
  StreamRule redirects, tee;
  std::set<int32_t> local_ranks_filter;  // empty = all
  std::vector<std::string> duplicate_stdout_filters, duplicate_stderr_filters;
  int32_t node_rank = 0;
  std::string master_addr = "127.0.0.1";
  std::optional<uint16_t> master_port;  // none: 29500, or any free port for a job of one node
  std::string local_addr;
  std::string logs_specs;
  std::string numa_binding;  // empty, node, socket, exclusive, core-complex
  std::vector<std::string> signals_to_handle = {"SIGTERM", "SIGINT", "SIGHUP", "SIGQUIT"};
  Nanos shutdown_timeout = std::chrono::seconds{30};
  bool virtual_local_rank = false;
  bool help = false;

  std::string script;                  // or module, program, function
  std::vector<std::string> arguments;  // for it
};

// `arguments` without the program's name. `environment` gives PET_* and
// TORCH_ELASTIC_SHUTDOWN_TIMEOUT. Errors: invalid_argument names the flag, the value and what is
// valid.
Result<TorchrunFlags> parse_torchrun_flags(const std::vector<std::string>& arguments,
                                           const Environment& environment);

// One node and a fresh run id: --standalone, or static with no endpoint, no --master-port and at
// most one node.
bool is_local_job(const TorchrunFlags& flags);

// The command of a worker before ${local_rank} is replaced: PYTHON_EXEC or `python`, -u, the script
// and its arguments; with --no-python the program itself.
std::vector<std::string> worker_command(const TorchrunFlags& flags, const std::string& python,
                                        const Environment& environment);

// How many workers a node runs. cpu: `cpus`; gpu, xpu: `devices` (an error if 0); automatic:
// devices, else cpus.
Result<int32_t> process_count(const TorchrunFlags& flags, int32_t cpus, int32_t devices);

// The help text of `muster torchrun`, one line per flag.
std::string torchrun_help();

}  // namespace muster
