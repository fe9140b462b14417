// muster torchrun: torchrun's command line and environment on muster's supervisor. One machine.
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <thread>

#include "app/cli/job_output.h"
#include "app/cli/options.h"
#include "app/cli/verb.h"
#include "runtime/rendezvous/torchrun_flags.h"
#include "runtime/supervise/supervisor.h"
#include "sys/exec_child.h"

namespace muster {
namespace {

constexpr const char* kFooter =
    "\n"
    "Differences from torchrun: the exit code is that of the rank that failed first (128 + n for\n"
    "signal n); every attempt has an empty store; no process survives the launcher. One machine:\n"
    "more than one node is refused. As first argument, --json prints one JSON object on standard\n"
    "output at the end; output of the ranks that would go there goes to standard error.\n"
    "exit codes: 2 wrong arguments, 1 the job could not be set up, 125 the keeper process died,\n"
    "  126 program not executable, 127 program not found\n";

Environment environment_of(const World& world) {
  return Environment(world.environment.begin(), world.environment.end());
}

std::string value_or(const World& world, const char* name, const std::string& otherwise) {
  const auto found = world.environment.find(name);
  return found == world.environment.end() ? otherwise : found->second;
}

// torchrun runs the interpreter it is installed in; here it is the first one in PATH.
std::string find_python(const World& world) {
  const std::string path = value_or(world, "PATH", "/usr/local/bin:/usr/bin:/bin");
  for (const char* name : {"python", "python3"})
    if (find_executable(name, "", path).ok()) return name;
  return "python3";
}

int32_t count_devices(const char* pattern) {
  int32_t count = 0;
  for (;; ++count) {
    struct stat info;
    if (stat((pattern + std::to_string(count)).c_str(), &info) != 0) return count;
  }
}

// "SIGTERM" -> 15.
Result<int> signal_number(const std::string& name) {
  for (int number = 1; number < NSIG; ++number) {
    const char* known = sigabbrev_np(number);
    if (known != nullptr && name == std::string("SIG") + known) return number;
  }
  return Error(Code::invalid_argument,
               "--signals-to-handle: '" + name + "' is no signal; names are like SIGTERM");
}

Status refuse_what_is_not_there(const TorchrunFlags& flags) {
  if (flags.min_nodes > 1)
    return Error(Code::unsupported, "--nnodes " + std::to_string(flags.min_nodes) +
                                        ": this version runs on one machine; use --nnodes 1");
  if (flags.node_rank != 0)
    return Error(Code::unsupported, "--node-rank " + std::to_string(flags.node_rank) +
                                        ": this version runs on one machine; use --node-rank 0");
  if (!flags.numa_binding.empty())
    return Error(Code::unsupported, "--numa-binding is not there yet; use numactl in the command");
  if (!flags.logs_specs.empty())
    return Error(Code::unsupported, "--logs-specs names a Python plug-in of torchrun");
  if (!flags.duplicate_stdout_filters.empty() || !flags.duplicate_stderr_filters.empty())
    return Error(Code::unsupported,
                 "--duplicate-*-filters are not there yet; filter the files in --log-dir");
  return {};
}

bool has(StreamSet set, StreamSet one) {
  return (static_cast<int>(set) & static_cast<int>(one)) != 0;
}

// Where one stream of one rank goes. Tee = file and labelled terminal; redirect = file; else the
// worker has the terminal itself. A rank that is filtered out loses its terminal copy.
struct StreamChoice {
  StreamTarget target;
  bool file, terminal;
};
StreamChoice choose(const TorchrunFlags& flags, int32_t rank, StreamSet stream, bool files) {
  const bool shown = flags.local_ranks_filter.empty() || flags.local_ranks_filter.contains(rank);
  if (has(flags.tee.of(rank), stream)) return {StreamTarget::capture, files, shown};
  if (has(flags.redirects.of(rank), stream))
    return {files ? StreamTarget::capture : StreamTarget::discard, files, false};
  return {shown ? StreamTarget::inherit : StreamTarget::discard, false, false};
}

std::string log_root(const TorchrunFlags& flags, const World& world, const std::string& run_id) {
  std::string root = flags.log_dir;
  if (root.empty()) {
    std::string pattern = value_or(world, "TMPDIR", "/tmp") + "/torchelastic_XXXXXX";
    const char* made = mkdtemp(pattern.data());
    root = made != nullptr ? made : "/tmp/torchelastic_" + std::to_string(getpid());
  }
  return root + "/" + run_id + "_" + fresh_run_id(world.random).substr(0, 8);
}

Result<JobSpec> job_spec(const TorchrunFlags& flags, World& world) {
  MUSTER_TRY(refuse_what_is_not_there(flags));
  const Environment environment = environment_of(world);
  const auto cpus = static_cast<int32_t>(std::max(1U, std::thread::hardware_concurrency()));
  const int32_t devices = count_devices("/dev/nvidia");
  JobSpec spec;
  MUSTER_TRY(spec.ranks, process_count(flags, cpus, devices));
  if (spec.ranks < 1 || spec.ranks > kMostRanks)
    return Error(Code::invalid_argument, "--nproc-per-node is from 1 to " +
                                             std::to_string(kMostRanks) + ", not " +
                                             std::to_string(spec.ranks));
  spec.command = worker_command(flags, find_python(world), environment);
  spec.replace_local_rank = true;
  spec.environment = world.environment;
  spec.stdin_to_all = true;

  spec.restart.scope = flags.max_restarts > 0 ? RestartScope::group : RestartScope::never;
  spec.restart.max_restarts = flags.max_restarts;
  spec.stop.stop_grace = flags.shutdown_timeout;
  spec.stop_signals.clear();
  for (const std::string& name : flags.signals_to_handle) {
    MUSTER_TRY(const int number, signal_number(name));
    spec.stop_signals.push_back(number);
  }

  TorchrunSettings& settings = *spec.torchrun;
  const bool local = is_local_job(flags);
  const bool fixed = !local && flags.rdzv_backend == "static";
  settings.role = flags.role;
  settings.run_id = local ? fresh_run_id(world.random) : flags.rdzv_id;
  settings.virtual_local_rank = flags.virtual_local_rank;
  settings.signals_to_handle = flags.signals_to_handle;
  settings.master_addr = fixed                       ? flags.master_addr
                         : !flags.local_addr.empty() ? flags.local_addr
                                                     : "localhost";
  settings.master_port = fixed ? flags.master_port.value_or(29500) : uint16_t{0};

  const bool files = flags.log_dir != "/dev/null";
  spec.logs.files = files;
  settings.error_files = files;
  if (files) spec.logs.directory = log_root(flags, world, settings.run_id);
  spec.logs.make_directories_first = files;
  spec.logs.label =
      value_or(world, "TORCHELASTIC_LOG_LINE_PREFIX_TEMPLATE", "[${role_name}${local_rank}]:");
  for (int32_t rank = 0; rank < spec.ranks; ++rank) {
    const StreamChoice out = choose(flags, rank, StreamSet::out, files);
    const StreamChoice err = choose(flags, rank, StreamSet::err, files);
    spec.logs.ranks[rank] = {out.target, err.target,   out.file,
                             err.file,   out.terminal, err.terminal};
  }
  return spec;
}

void warn_about_threads(const JobSpec& spec, const Environment& environment) {
  TorchrunJob job;
  job.local_world_sizes = {spec.ranks};
  if (defaults_omp_threads(job, environment))
    std::fprintf(stderr,
                 "muster torchrun: OMP_NUM_THREADS is 1 for each rank, so that they do not crowd "
                 "the machine; set it to choose another number\n");
}

}  // namespace

int torchrun_main(World& world, const std::vector<std::string>& words) {
  const bool json = !words.empty() && words[0] == "--json";
  const std::vector<std::string> arguments(words.begin() + (json ? 1 : 0), words.end());
  const Environment environment = environment_of(world);
  Result<TorchrunFlags> flags = parse_torchrun_flags(arguments, environment);
  if (flags.ok() && flags->help) {
    std::printf("%s%s", torchrun_help().c_str(), kFooter);
    return kExitOk;
  }
  Result<JobSpec> spec = flags.ok() ? job_spec(*flags, world) : Result<JobSpec>(flags.error());
  if (!spec.ok()) {
    std::fprintf(stderr, "muster torchrun: %s; see muster torchrun --help\n",
                 spec.error().to_string().c_str());
    return kExitUsage;
  }
  if (json) spec->logs.out_fd = STDERR_FILENO;
  warn_about_threads(*spec, environment);
  return run_job(world, "muster torchrun", *std::move(spec), nullptr, "", json);
}

}  // namespace muster
