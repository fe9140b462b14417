#include "runtime/rendezvous/torchrun_flags.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <functional>
#include <string_view>

namespace muster {
namespace {

using Setter = std::function<Status(TorchrunFlags&, const std::string&)>;

struct Flag {
  std::string_view name;  // with dashes, without the leading two
  char letter;            // '\0' = none
  bool takes_value;
  bool has_environment_default;
  std::string_view metavar;
  std::string_view help;
  Setter set;  // switches get "1" or "0"
};

Error invalid(std::string_view value, std::string_view valid) {
  return Error(Code::invalid_argument, fmt::format("\"{}\" is not valid: {}", value, valid));
}

template <class T>
Result<T> integer(std::string_view text, T least, T most) {
  T number{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size() || number < least || number > most)
    return invalid(text, fmt::format("an integer from {} to {} is needed", least, most));
  return number;
}

std::vector<std::string> split(std::string_view text, char separator) {
  std::vector<std::string> parts;
  if (text.empty()) return parts;
  for (;;) {
    const size_t at = text.find(separator);
    parts.emplace_back(text.substr(0, at));
    if (at == std::string_view::npos) return parts;
    text.remove_prefix(at + 1);
  }
}

constexpr int32_t kMaxCount = 1 << 20;

Status set_nodes(TorchrunFlags& flags, const std::string& value) {
  const std::vector<std::string> parts = split(value, ':');
  if (parts.empty() || parts.size() > 2) return invalid(value, "N or MIN:MAX is needed");
  MUSTER_TRY(flags.min_nodes, integer<int32_t>(parts.front(), 1, kMaxCount));
  MUSTER_TRY(flags.max_nodes, integer<int32_t>(parts.back(), 1, kMaxCount));
  if (flags.min_nodes > flags.max_nodes) return invalid(value, "MIN must not exceed MAX");
  return {};
}

Status set_processes(TorchrunFlags& flags, const std::string& value) {
  using Count = TorchrunFlags::ProcessCount;
  const struct {
    std::string_view name;
    Count count;
  } words[] = {
      {"cpu", Count::cpu}, {"gpu", Count::gpu}, {"xpu", Count::xpu}, {"auto", Count::automatic}};
  for (const auto& word : words) {
    if (value != word.name) continue;
    flags.processes = word.count;
    return {};
  }
  flags.processes = Count::number;
  const Result<int32_t> number = integer<int32_t>(value, 1, kMaxCount);
  if (!number) return invalid(value, "a number from 1, cpu, gpu, xpu or auto is needed");
  flags.nproc_per_node = *number;
  return {};
}

Status set_rdzv_conf(TorchrunFlags& flags, const std::string& value) {
  flags.rdzv_conf.clear();
  for (const std::string& pair : split(value, ',')) {
    const size_t equals = pair.find('=');
    if (equals == std::string::npos || equals == 0)
      return invalid(value, "KEY=VALUE pairs with commas between them are needed");
    flags.rdzv_conf[pair.substr(0, equals)] = pair.substr(equals + 1);
  }
  return {};
}

Status set_streams(StreamRule& rule, const std::string& value) {
  constexpr std::string_view kValid =
      "0 (none), 1 (out), 2 (err), 3 (both) or LOCAL_RANK:DIGIT pairs with commas between them are "
      "needed";
  rule = {};
  const auto digit = [](char c) { return c >= '0' && c <= '3'; };
  if (value.size() == 1 && digit(value[0])) {
    rule.everyone = static_cast<StreamSet>(value[0] - '0');
    return {};
  }
  const std::vector<std::string> parts = split(value, ',');
  if (parts.empty()) return invalid(value, kValid);
  for (const std::string& part : parts) {
    if (part.size() != 3 || part[0] < '0' || part[0] > '9' || part[1] != ':' || !digit(part[2]))
      return invalid(value, kValid);
    rule.by_local_rank[part[0] - '0'] = static_cast<StreamSet>(part[2] - '0');
  }
  return {};
}

Status set_local_ranks(TorchrunFlags& flags, const std::string& value) {
  flags.local_ranks_filter.clear();
  for (const std::string& part : split(value, ',')) {
    MUSTER_TRY(const int32_t rank, integer<int32_t>(part, 0, kMaxCount));
    flags.local_ranks_filter.insert(rank);
  }
  return {};
}

Status set_choice(std::string& out, const std::string& value,
                  std::initializer_list<std::string_view> choices) {
  if (std::find(choices.begin(), choices.end(), value) == choices.end())
    return invalid(value, fmt::format("one of {} is needed", fmt::join(choices, ", ")));
  out = value;
  return {};
}

Status set_signals(TorchrunFlags& flags, const std::string& value) {
  flags.signals_to_handle = split(value, ',');
  for (const std::string& name : flags.signals_to_handle)
    if (!name.starts_with("SIG")) return invalid(value, "names such as SIGTERM,SIGINT are needed");
  return {};
}

Result<Nanos> seconds(const std::string& value) {
  double number = 0;
  const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), number);
  if (error != std::errc() || end != value.data() + value.size() || !(number >= 0) || number > 1e9)
    return invalid(value, "a number of seconds, 0 or more, is needed");
  return Nanos{static_cast<int64_t>(std::llround(number * 1e9))};
}

Setter text(std::string TorchrunFlags::* member) {
  return [member](TorchrunFlags& flags, const std::string& value) -> Status {
    flags.*member = value;
    return {};
  };
}

Setter list(std::vector<std::string> TorchrunFlags::* member) {
  return [member](TorchrunFlags& flags, const std::string& value) -> Status {
    flags.*member = split(value, ',');
    return {};
  };
}

Setter count(int32_t TorchrunFlags::* member) {
  return [member](TorchrunFlags& flags, const std::string& value) -> Status {
    MUSTER_TRY(flags.*member, integer<int32_t>(value, 0, kMaxCount));
    return {};
  };
}

Setter duration(Nanos TorchrunFlags::* member) {
  return [member](TorchrunFlags& flags, const std::string& value) -> Status {
    MUSTER_TRY(flags.*member, seconds(value));
    return {};
  };
}

Setter on_off(bool TorchrunFlags::* member) {
  return [member](TorchrunFlags& flags, const std::string& value) -> Status {
    flags.*member = value != "0";
    return {};
  };
}

// The three ways to say what a worker is exclude each other only where torchrun says so, so they
// are collected first (parse_torchrun_flags) and judged at the end.
struct EntryFlags {
  bool module = false, no_python = false, run_path = false;
};

const std::vector<Flag>& flag_table() {
  using F = TorchrunFlags;
  static const std::vector<Flag> table = {
      {"nnodes", 0, true, true, "N|MIN:MAX", "number of nodes", set_nodes},
      {"nproc-per-node", 0, true, true, "N|cpu|gpu|xpu|auto", "workers on this node",
       set_processes},
      {"rdzv-backend", 0, true, true, "NAME", "static, c10d or etcd-v2", text(&F::rdzv_backend)},
      {"rdzv-endpoint", 0, true, true, "HOST[:PORT]", "where the nodes meet",
       text(&F::rdzv_endpoint)},
      {"rdzv-id", 0, true, true, "ID", "the job's id", text(&F::rdzv_id)},
      {"rdzv-conf", 0, true, true, "K=V,...", "settings of the meeting", set_rdzv_conf},
      {"standalone", 0, false, true, "", "one node, a free port, a fresh id",
       on_off(&F::standalone)},
      {"max-restarts", 0, true, true, "N", "restarts before the job fails",
       count(&F::max_restarts)},
      {"monitor-interval", 0, true, true, "SECONDS", "accepted; exits are noticed at once",
       duration(&F::monitor_interval)},
      {"start-method", 0, true, true, "NAME", "spawn, fork or forkserver (--run-path)",
       [](F& f, const std::string& v) {
         return set_choice(f.start_method, v, {"spawn", "fork", "forkserver"});
       }},
      {"event-log-handler", 0, true, true, "NAME", "accepted", text(&F::event_log_handler)},
      {"role", 0, true, true, "NAME", "the workers' role", text(&F::role)},
      {"module", 'm', false, true, "", "the script is a Python module", nullptr},
      {"no-python", 0, false, true, "", "the script is a program to run as it is", nullptr},
      {"run-path", 0, false, true, "", "run the script in the interpreter by runpy", nullptr},
      {"log-dir", 0, true, true, "DIR", "folder of the log tree", text(&F::log_dir)},
      {"redirects", 'r', true, true, "RULE",
       "streams that go to files: 0 none, 1 out, 2 err, 3 both, "
       "or LOCAL_RANK:DIGIT,...",
       [](F& f, const std::string& v) { return set_streams(f.redirects, v); }},
      {"tee", 't', true, true, "RULE", "streams that go to files and to the terminal",
       [](F& f, const std::string& v) { return set_streams(f.tee, v); }},
      {"local-ranks-filter", 0, true, true, "R,...", "local ranks shown on the terminal",
       set_local_ranks},
      {"duplicate-stdout-filters", 0, true, true, "TEXT,...",
       "lines copied to filtered_stdout.log (needs tee)", list(&F::duplicate_stdout_filters)},
      {"duplicate-stderr-filters", 0, true, true, "TEXT,...",
       "lines copied to filtered_stderr.log (needs tee)", list(&F::duplicate_stderr_filters)},
      {"node-rank", 0, true, true, "N", "this node among the nodes (static)", count(&F::node_rank)},
      {"master-addr", 0, true, true, "HOST", "address of node 0 (static)", text(&F::master_addr)},
      {"master-port", 0, true, true, "PORT", "port of the store (static)",
       [](F& f, const std::string& v) -> Status {
         MUSTER_TRY(f.master_port, integer<uint16_t>(v, 0, 65535));
         return {};
       }},
      {"local-addr", 0, true, true, "HOST", "address of this node", text(&F::local_addr)},
      {"logs-specs", 0, true, false, "NAME", "accepted", text(&F::logs_specs)},
      {"numa-binding", 0, true, false, "NAME", "node, socket, exclusive or core-complex",
       [](F& f, const std::string& v) {
         return set_choice(f.numa_binding, v, {"node", "socket", "exclusive", "core-complex"});
       }},
      {"signals-to-handle", 0, true, true, "SIG,...", "signals passed on to the workers",
       set_signals},
      {"shutdown-timeout", 0, true, true, "SECONDS", "from the signal to SIGKILL",
       duration(&F::shutdown_timeout)},
      {"virtual-local-rank", 0, false, true, "", "every worker sees local rank 0 and one device",
       on_off(&F::virtual_local_rank)},
  };
  return table;
}

Status apply(TorchrunFlags& flags, EntryFlags& entry, const Flag& flag, const std::string& value) {
  if (flag.set) return flag.set(flags, value);
  const bool on = value != "0";
  if (flag.name == "module") entry.module = on;
  if (flag.name == "no-python") entry.no_python = on;
  if (flag.name == "run-path") entry.run_path = on;
  return {};
}

std::string environment_name(const Flag& flag) {
  std::string name = "PET_";
  for (const char c : flag.name)
    name += c == '-' ? '_' : static_cast<char>(c >= 'a' && c <= 'z' ? c - 'a' + 'A' : c);
  return name;
}

Status apply_environment(TorchrunFlags& flags, EntryFlags& entry, const Environment& environment) {
  if (const auto it = environment.find("TORCH_ELASTIC_SHUTDOWN_TIMEOUT"); it != environment.end()) {
    Result<Nanos> timeout = seconds(it->second);
    if (!timeout) return std::move(timeout).error().context("TORCH_ELASTIC_SHUTDOWN_TIMEOUT");
    flags.shutdown_timeout = *timeout;
  }
  for (const Flag& flag : flag_table()) {
    if (!flag.has_environment_default) continue;
    const std::string name = environment_name(flag);
    const auto it = environment.find(name);
    if (it == environment.end()) continue;
    if (!flag.takes_value && !integer<int32_t>(it->second, -kMaxCount, kMaxCount))
      return invalid(it->second, "1 or 0 is needed").context(name);
    Status applied = apply(flags, entry, flag, it->second);
    if (!applied) return std::move(applied).error().context(name);
  }
  return {};
}

// The flag that `spelling` (after the dashes, either kind) names, in full or by a prefix that fits
// one.
Result<const Flag*> find_flag(std::string_view spelling) {
  std::string name(spelling);
  std::replace(name.begin(), name.end(), '_', '-');
  std::vector<const Flag*> fitting;
  for (const Flag& flag : flag_table()) {
    if (flag.name == name) return &flag;
    if (flag.name.starts_with(name)) fitting.push_back(&flag);
  }
  if (fitting.size() == 1) return fitting.front();
  if (fitting.empty())
    return Error(
        Code::invalid_argument,
        fmt::format("--{} is no flag of torchrun; see --help. Flags for the script go after "
                    "it",
                    spelling));
  std::string names;
  for (const Flag* flag : fitting)
    names += (names.empty() ? "--" : ", --") + std::string(flag->name);
  return Error(Code::invalid_argument, fmt::format("--{} may mean {}", spelling, names));
}

bool looks_like_value(std::string_view argument) {
  if (argument.size() < 2 || argument[0] != '-') return true;
  if (argument.find(' ') != std::string_view::npos) return true;
  return std::all_of(argument.begin() + 1, argument.end(),
                     [](char c) { return (c >= '0' && c <= '9') || c == '.'; });
}

// One flag on the command line, taken apart.
struct Spelled {
  const Flag* flag = nullptr;
  std::string shown;  // for messages
  std::optional<std::string> value;
};

Result<Spelled> spelled(std::string_view argument) {
  Spelled out;
  if (argument.starts_with("--")) {
    const size_t equals = argument.find('=');
    MUSTER_TRY(out.flag,
               find_flag(argument.substr(
                   2, equals == std::string_view::npos ? std::string_view::npos : equals - 2)));
    if (equals != std::string_view::npos) out.value = std::string(argument.substr(equals + 1));
    out.shown = fmt::format("--{}", out.flag->name);
    return out;
  }
  for (const Flag& flag : flag_table())
    if (flag.letter != '\0' && flag.letter == argument[1]) out.flag = &flag;
  if (out.flag == nullptr)
    return Error(
        Code::invalid_argument,
        fmt::format("{} is no flag of torchrun; see --help. Flags for the script go after it",
                    argument));
  out.shown = fmt::format("-{}", argument[1]);
  std::string_view joined = argument.substr(2);
  if (joined.starts_with('=')) joined.remove_prefix(1);
  if (argument.size() > 2) out.value = std::string(joined);
  return out;
}

Status check_values(const Spelled& given, bool next_is_value) {
  if (!given.flag->takes_value && given.value)
    return Error(Code::invalid_argument,
                 fmt::format("{} takes no value, \"{}\" was given", given.shown, *given.value));
  if (given.flag->takes_value && !given.value && !next_is_value)
    return Error(Code::invalid_argument, fmt::format("{} needs a value", given.shown));
  return {};
}

Status set_entry(TorchrunFlags& flags, const EntryFlags& entry) {
  if (entry.module && entry.no_python)
    return Error(Code::invalid_argument, "-m and --no-python exclude each other");
  if (entry.run_path && (entry.module || entry.no_python))
    return Error(Code::invalid_argument, "--run-path excludes -m and --no-python");
  using Entry = TorchrunFlags::Entry;
  flags.entry = entry.run_path    ? Entry::function
                : entry.no_python ? Entry::program
                : entry.module    ? Entry::module
                                  : Entry::script;
  return {};
}

}  // namespace

Result<TorchrunFlags> parse_torchrun_flags(const std::vector<std::string>& arguments,
                                           const Environment& environment) {
  TorchrunFlags flags;
  EntryFlags entry;
  MUSTER_TRY(apply_environment(flags, entry, environment));
  size_t i = 0;
  bool ended = false;  // by --
  for (; i < arguments.size(); ++i) {
    const std::string& argument = arguments[i];
    if (argument == "--") {
      ended = true;
      ++i;
      break;
    }
    if (argument == "-h" || argument == "--help") {
      flags.help = true;
      return flags;
    }
    if (looks_like_value(argument)) break;
    MUSTER_TRY(const Spelled given, spelled(argument));
    const bool next_is_value = i + 1 < arguments.size() && looks_like_value(arguments[i + 1]);
    MUSTER_TRY(check_values(given, next_is_value));
    std::string value = given.value.value_or("1");
    if (given.flag->takes_value && !given.value) value = arguments[++i];
    Status applied = apply(flags, entry, *given.flag, value);
    if (!applied) return std::move(applied).error().context(given.shown);
  }
  if (i == arguments.size())
    return Error(Code::invalid_argument, "no script is given; it follows the flags");
  flags.script = arguments[i++];
  if (!ended && i < arguments.size() && arguments[i] == "--") ++i;
  flags.arguments.assign(arguments.begin() + static_cast<ptrdiff_t>(i), arguments.end());
  MUSTER_TRY(set_entry(flags, entry));
  return flags;
}

bool is_local_job(const TorchrunFlags& flags) {
  return flags.standalone || (flags.rdzv_backend == "static" && flags.rdzv_endpoint.empty() &&
                              !flags.master_port && flags.max_nodes == 1);
}

std::vector<std::string> worker_command(const TorchrunFlags& flags, const std::string& python,
                                        const Environment& environment) {
  using Entry = TorchrunFlags::Entry;
  std::vector<std::string> command;
  if (flags.entry != Entry::program) {
    const auto it = environment.find("PYTHON_EXEC");
    command = {it != environment.end() ? it->second : python, "-u"};
  }
  if (flags.entry == Entry::module) command.push_back("-m");
  if (flags.entry == Entry::function) {
    // What torchrun does in a forked interpreter, in a fresh one.
    command.push_back("-c");
    command.push_back(
        "import runpy, sys; sys.argv = sys.argv[1:]; runpy.run_path(sys.argv[0], "
        "run_name=\"__main__\")");
  }
  command.push_back(flags.script);
  command.insert(command.end(), flags.arguments.begin(), flags.arguments.end());
  return command;
}

Result<int32_t> process_count(const TorchrunFlags& flags, int32_t cpus, int32_t devices) {
  using Count = TorchrunFlags::ProcessCount;
  switch (flags.processes) {
    case Count::number:
      return flags.nproc_per_node;
    case Count::cpu:
      return cpus;
    case Count::gpu:
    case Count::xpu:
      if (devices == 0)
        return Error(Code::unsupported,
                     "--nproc-per-node: no such device here; give a number, cpu or auto");
      return devices;
    case Count::automatic:
      return devices > 0 ? devices : cpus;
  }
  MUSTER_CHECK(false, static_cast<int>(flags.processes));
  return 0;
}

std::string torchrun_help() {
  std::string out = "usage: muster torchrun [flags] SCRIPT [arguments]\n\n";
  for (const Flag& flag : flag_table()) {
    const std::string letter = flag.letter != '\0' ? fmt::format("-{}, ", flag.letter) : "";
    const std::string head = fmt::format("  {}--{} {}", letter, flag.name, flag.metavar);
    out += fmt::format("{:<44} {}\n", head, flag.help);
  }
  return out +
         "\nAny flag but --logs-specs and --numa-binding takes its default from PET_<FLAG>.\n";
}

}  // namespace muster
