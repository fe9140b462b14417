#include "runtime/supervise/supervisor.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>
#include <unordered_map>
#include <utility>

#include "base/units.h"
#include "net/reactor.h"
#include "net/socket.h"
#include "runtime/rendezvous/tcp_store_server.h"
#include "runtime/rendezvous/torchrun_env.h"
#include "runtime/supervise/hang_judge.h"
#include "runtime/supervise/job_events.h"
#include "runtime/supervise/job_machine.h"
#include "runtime/supervise/line_assembler.h"
#include "runtime/supervise/log_pump.h"
#include "sys/process_tree.h"
#include "trace/vocabulary.h"

namespace muster {
namespace {

constexpr size_t kReportedLines = 50;
// Nobody of the job is left when its output is read to the end; a disk may be slow all the same.
constexpr Nanos kDrainStall = std::chrono::milliseconds{200};
constexpr Nanos kDrainLimit = std::chrono::minutes{1};
constexpr int kStoreBacklog = 4096;
constexpr uint64_t kTemplateId = uint64_t{1} << 62;
constexpr int kTemplateReplacements = 2;
constexpr int kFirstPassedFd = 3;

std::string read_text(const std::string& path) {
  std::ifstream in(path);
  std::ostringstream out;
  out << in.rdbuf();
  return out.str();
}

// Processes that the kernel has killed for memory, on the whole machine.
int64_t oom_kills() {
  std::ifstream in("/proc/vmstat");
  std::string name;
  int64_t value;
  while (in >> name >> value)
    if (name == "oom_kill") return value;
  return 0;
}

void make_folders(const std::string& path) {
  for (size_t slash = path.find('/', 1);; slash = path.find('/', slash + 1)) {
    mkdir(path.substr(0, slash).c_str(), 0755);
    if (slash == std::string::npos) return;
  }
}

Result<std::pair<OwnedFd, OwnedFd>> make_pipe() {
  int fds[2];
  if (pipe2(fds, O_CLOEXEC) != 0)
    return errno_error(errno, "make a pipe for a rank's output (limit of open files?)");
  fcntl(fds[0], F_SETFL, O_NONBLOCK);
  return std::make_pair(OwnedFd(fds[0]), OwnedFd(fds[1]));
}

// Termination signals come as a descriptor while it lives.
class SignalWatch {
 public:
  Status open(const std::vector<int>& signals) {
    sigset_t wanted;
    sigemptyset(&wanted);
    for (int number : signals) sigaddset(&wanted, number);
    sigaddset(&wanted, SIGPIPE);  // blocked only: a reader that left is an error of write
    pthread_sigmask(SIG_BLOCK, &wanted, &before_);
    sigdelset(&wanted, SIGPIPE);
    fd_.reset(signalfd(-1, &wanted, SFD_CLOEXEC | SFD_NONBLOCK));
    if (!fd_) return errno_error(errno, "signalfd");
    return {};
  }
  ~SignalWatch() {
    if (!fd_) return;
    // What came after the job's end concerned the job; unblocked, it would end this process.
    while (take() != 0) {
    }
    sigset_t pipe;
    sigemptyset(&pipe);
    sigaddset(&pipe, SIGPIPE);
    const timespec now{0, 0};
    while (sigtimedwait(&pipe, nullptr, &now) > 0) {
    }
    pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }
  int fd() const { return fd_.get(); }
  int take() {
    signalfd_siginfo info;
    return read(fd_.get(), &info, sizeof info) == sizeof info ? static_cast<int>(info.ssi_signo)
                                                              : 0;
  }

 private:
  OwnedFd fd_;
  sigset_t before_{};
};

}  // namespace

struct Supervisor::Impl {
  struct Worker {
    WorkerView view;
    OwnedFd pidfd;
    std::unique_ptr<TraceRegion> trace;
    std::optional<HangJudge> judge;
    std::string error_file;
    bool captured = false;
    int template_serial = 0;  // the template that was asked to fork it
  };

  Seams seams;
  JobSpec spec;
  JobObserver* observer;
  JobObserver silent_observer;
  JobMachine machine;
  std::unique_ptr<Reactor> reactor;
  std::unique_ptr<TcpStoreServer> store;
  std::unique_ptr<LogPump> pump;
  SignalWatch signals;
  std::map<uint64_t, Worker> workers;
  std::map<std::string, std::string> added_environment;
  std::vector<JobEvent> inner;  // events that actions gave rise to
  int64_t oom_before = 0;
  bool over = false;
  int templates_started = 0;
  bool template_lost = false;
  int templates_replaced = 0;  // in this attempt
  bool template_warm = false;  // it has forked a rank
  std::string template_late;   // why the current one was killed before it was warm
  int requested_stop = 0;
  size_t placed = 0;
  bool wave_open = false;  // exits that have come are still being taken

  Impl(Seams s, JobSpec j, JobObserver* o)
      : seams(s),
        spec(std::move(j)),
        observer(o != nullptr ? o : &silent_observer),
        machine({std::max(spec.ranks, 1), spec.restart, spec.stop}) {}

  // --- set-up

  Status check() const {
    if (spec.ranks < 1)
      return Error(Code::invalid_argument,
                   "a job needs at least 1 rank, not " + std::to_string(spec.ranks));
    if (spec.command.empty() || spec.command[0].empty())
      return Error(Code::invalid_argument, "a job needs a command to run");
    if (spec.restart.max_restarts < 0)
      return Error(Code::invalid_argument, "the number of restarts cannot be negative");
    return {};
  }

  Status set_up() {
    MUSTER_TRY(check());
    MUSTER_TRY(reactor, Reactor::make(seams.clock));
    MUSTER_TRY(signals.open(spec.stop_signals));
    MUSTER_TRY(reactor->watch(signals.fd(), {true, false}, [this](Readiness) {
      while (const int number = signals.take()) stop(number);
    }));
    if (seams.spawner.event_fd() >= 0)
      MUSTER_TRY(reactor->watch(seams.spawner.event_fd(), {true, false},
                                [this](Readiness) { take_spawner_events(); }));
    MUSTER_TRY(open_store());
    MUSTER_TRY(pump, LogPump::start(seams.clock, {spec.logs.out_fd, spec.logs.err_fd}));
    MUSTER_TRY(start_template());
    oom_before = oom_kills();
    return {};
  }

  // The port is bound here, before any rank exists, and kept to the end.
  Status open_store() {
    if (!spec.torchrun) return {};
    const TorchrunSettings& settings = *spec.torchrun;
    const std::string host =
        settings.master_addr == "localhost" ? "127.0.0.1" : settings.master_addr;
    auto listener = listen_socket(Endpoint::tcp(host, settings.master_port), kStoreBacklog);
    if (!listener.ok()) return std::move(listener).error().context("opening the store's port");
    MUSTER_TRY(store, TcpStoreServer::serve(
                          *reactor, *std::move(listener), [this](const std::string& reason) {
                            seams.log.warning("store closed a connection", {{"reason", reason}});
                          }));
    return {};
  }

  Status start_template() {
    if (spec.template_command.empty()) return {};
    SpawnSpec start;
    start.id = kTemplateId + static_cast<uint64_t>(templates_started++);
    template_lost = template_warm = false;
    template_late.clear();
    start.argv = spec.template_command;
    for (const auto& [name, value] : spec.environment)
      start.environment.push_back(name + "=" + value);
    start.environment.push_back("MUSTER_TEMPLATE_FD=3");
    start.directory = spec.directory;
    start.stdout_fd = spec.logs.err_fd;
    start.stderr_fd = spec.logs.err_fd;
    reactor->after(spec.template_limit, [this, id = start.id] { judge_template(id); });
    return seams.spawner.start_template(start);
  }

  // Ranks wait for a template that warms up, and nothing else watches over it.
  void judge_template(uint64_t id) {
    const bool current = id == kTemplateId + static_cast<uint64_t>(templates_started - 1);
    if (!current || template_warm || template_lost || over) return;
    template_late =
        "the template process was not warm after " + format_duration(spec.template_limit);
    seams.log.error("the template process hangs", {{"reason", template_late}});
    check(seams.spawner.signal(id, SIGKILL, SignalScope::group));
  }

  // --- running

  Result<JobReport> run() {
    MUSTER_TRY(set_up());
    event(event_kind::kJobLaunch, {{"ranks", spec.ranks}, {"command", spec.command}}, -1, -1);
    JobEvent start{JobEvent::Kind::start};
    feed(std::move(start));
    if (spec.trace || spec.hang.enabled) tick();
    while (!over) {
      MUSTER_TRY(reactor->run_once(std::chrono::seconds{1}));
      close_wave();
      if (requested_stop != 0) stop(std::exchange(requested_stop, 0));
    }
    pump->finish(kDrainStall, kDrainLimit);
    JobReport report = machine.report();
    const LogPump::Drops drops = pump->drops();
    report.dropped_lines = drops.terminal_lines + drops.file_lines;
    if (drops.terminal_lines > 0)
      seams.log.warning("the terminal's reader was too slow; lines were left out there",
                        {{"lines", drops.terminal_lines}});
    if (drops.unread_bytes > 0)
      seams.log.warning("output was left in pipes that somebody kept open",
                        {{"bytes", drops.unread_bytes}});
    if (!drops.file_error.empty())
      seams.log.warning("log lines could not be written",
                        {{"lines", drops.file_lines}, {"error", drops.file_error}});
    if (spec.logs.files) report.log_directory = spec.logs.directory;
    event(event_kind::kJobEnd,
          {{"succeeded", report.exit_code == 0},
           {"exit_code", report.exit_code},
           {"reason", report.verdict}},
          -1, -1);
    return report;
  }

  void stop(int signal_number) {
    event(event_kind::kJobStop, {{"signal", signal_number}}, -1, -1);
    JobEvent stop{JobEvent::Kind::stop};
    stop.signal_number = signal_number;
    feed(std::move(stop));
  }

  void feed(JobEvent first) {
    inner.push_back(std::move(first));
    while (!inner.empty()) {
      JobEvent event = std::move(inner.front());
      inner.erase(inner.begin());
      event.now = event.now.count() != 0 ? event.now : seams.clock.now();
      for (JobAction& action : machine.apply(event)) execute(action);
    }
  }

  // All events that have come are applied before the wave is closed, so that exits which were on
  // the way when the first one was seen are judged with it.
  void take_spawner_events() {
    for (SpawnEvent& event : seams.spawner.take_events()) {
      switch (event.kind) {
        case SpawnEvent::Kind::started:
          on_started(event);
          break;
        case SpawnEvent::Kind::start_failed:
          on_start_failed(event);
          break;
        case SpawnEvent::Kind::exited:
          on_exited(event);
          break;
        case SpawnEvent::Kind::swept: {
          JobEvent swept{JobEvent::Kind::swept};
          swept.text = event.text;
          feed(std::move(swept));
          break;
        }
        case SpawnEvent::Kind::lost: {
          reactor->unwatch(seams.spawner.event_fd());
          feed(JobEvent{JobEvent::Kind::keeper_lost});
          break;
        }
      }
    }
    close_wave();
  }

  void on_started(SpawnEvent& event) {
    const auto found = workers.find(event.id);
    if (found == workers.end()) return;
    Worker& worker = found->second;
    worker.view.pid = event.pid;
    worker.view.running = true;
    worker.pidfd = std::move(event.pidfd);
    if (worker.template_serial == templates_started) template_warm = true;
    this->event(event_kind::kRankStart, {{"pid", event.pid}}, worker.view.attempt.value,
                worker.view.rank.value, event.when);
    JobEvent started{JobEvent::Kind::started};
    started.id = event.id;
    started.pid = event.pid;
    feed(std::move(started));
    if (++placed == static_cast<size_t>(spec.ranks))
      this->event(event_kind::kAttemptPlaced, nlohmann::json::object(), worker.view.attempt.value,
                  -1);
    observer->worker_started(worker.view);
  }

  // A template that served earlier attempts may die together with the rank whose failure ended the
  // last one, and be found dead only when it is asked to fork. That is no fault of the rank: it is
  // started again from a new template. A template that never served is a cause (first attempt).
  bool start_again(const SpawnEvent& event) {
    const auto found = workers.find(event.id);
    const bool template_gone = event.error == EPIPE || event.error == ESRCH;
    if (found == workers.end() || spec.template_command.empty() || !template_gone) return false;
    const WorkerView view = found->second.view;
    if (view.attempt.value == 0 || !template_late.empty()) return false;
    const auto rank = machine.rank_of(event.id);
    if (rank && machine.rank(*rank).killed) return false;      // it was not to start any more
    if (found->second.template_serial == templates_started) {  // nobody has replaced it yet
      if (templates_replaced == kTemplateReplacements) return false;
      ++templates_replaced;
      seams.log.warning("the template process was gone; starting another",
                        {{"reason", event.text}});
      if (!start_template().ok()) return false;
    }
    if (found->second.captured) pump->forget(event.id);
    workers.erase(found);
    JobAction again;
    again.kind = JobAction::Kind::spawn;
    again.rank = view.rank.value;
    again.attempt = view.attempt.value;
    again.id = event.id;
    spawn(again);
    return true;
  }

  void on_start_failed(const SpawnEvent& event) {
    if (start_again(event)) return;
    if (event.id >= kTemplateId) {
      template_lost = true;
      seams.log.error("the template process could not be started", {{"reason", event.text}});
    }
    JobEvent failed{JobEvent::Kind::start_failed};
    failed.id = event.id;
    failed.error = template_late.empty() ? event.error : ETIMEDOUT;
    failed.text = template_late.empty() ? event.text : template_late;
    failed.now = event.when;
    feed(std::move(failed));
  }

  void on_exited(const SpawnEvent& event) {
    const auto found = workers.find(event.id);
    if (found == workers.end()) {
      if (event.id < kTemplateId) return;
      // Only the current one is missed.
      if (event.id != kTemplateId + static_cast<uint64_t>(templates_started - 1)) return;
      template_lost = true;
      if (!over)
        seams.log.warning("the template process has ended",
                          {{"code", event.exit.code}, {"signal", event.exit.signal}});
      return;
    }
    Worker& worker = found->second;
    worker.view.running = false;
    worker.pidfd.reset();
    const auto rank = machine.rank_of(event.id);
    const bool by_us = rank && machine.rank(*rank).killed;
    nlohmann::json payload{{"expected", by_us || event.exit.success()}};
    if (event.exit.signal != 0)
      payload["signal"] = event.exit.signal;
    else
      payload["exit_code"] = event.exit.code;
    this->event(event_kind::kRankExit, std::move(payload), worker.view.attempt.value,
                worker.view.rank.value, event.when);
    observer->worker_exited(worker.view, event.exit, by_us);
    JobEvent exited{JobEvent::Kind::exited};
    exited.id = event.id;
    exited.exit = event.exit;
    exited.now = event.when;
    feed(std::move(exited));
  }

  // --- actions

  void execute(JobAction& action) {
    using Kind = JobAction::Kind;
    switch (action.kind) {
      case Kind::begin_attempt:
        begin_attempt(action.attempt);
        break;
      case Kind::spawn:
        spawn(action);
        break;
      case Kind::signal:
        journal(action.id, action.signal_number);
        check(seams.spawner.signal(action.id, action.signal_number, SignalScope::group));
        break;
      case Kind::kill_tree:
        check(seams.spawner.kill_tree(action.id));
        // Its rank starts again alone: what is kept of this start is needed no more.
        pump->forget(action.id);
        workers.erase(action.id);
        break;
      case Kind::kill_all:
        for (const auto& [id, worker] : workers)
          if (worker.view.running) journal(id, SIGKILL);
        check(seams.spawner.kill_all());
        break;
      case Kind::close_wave:
        wave_open = true;
        break;
      case Kind::found_cause:
        found_cause(action.cause);
        break;
      case Kind::ask_restart:
        ask_restart(action);
        break;
      case Kind::wake_at:
        reactor->at(action.when, [this] { feed(JobEvent{JobEvent::Kind::time}); });
        break;
      case Kind::finish:
        event(event_kind::kAttemptEnd, nlohmann::json::object(), machine.attempt(), -1);
        over = true;
        break;
    }
  }

  // A request that cannot be sent means that the keeper is gone, which is told by an event.
  void check(const Status& status) {
    if (!status.ok()) seams.log.warning("keeper", {{"error", status.error().to_string()}});
  }

  void journal(uint64_t id, int signal_number) {
    const auto found = workers.find(id);
    if (found == workers.end()) return;
    event(event_kind::kRankKill, {{"signal", signal_number}}, found->second.view.attempt.value,
          found->second.view.rank.value);
  }

  void begin_attempt(int attempt) {
    if (attempt > 0) event(event_kind::kAttemptEnd, nlohmann::json::object(), attempt - 1, -1);
    placed = 0;
    templates_replaced = 0;
    event(event_kind::kAttemptStart, {{"restarts", machine.restarts()}}, attempt, -1);
    if (store != nullptr && attempt > 0) store->clear();
    for (auto& [id, worker] : workers)
      if (worker.captured) pump->forget(id);
    workers.clear();
    // One that died takes no rank along, but the next ranks need another.
    if (template_lost) check(start_template());
    observer->attempt_started(Attempt{attempt});
  }

  std::string attempt_folder(int attempt) const {
    return spec.logs.directory + "/attempt_" + std::to_string(attempt);
  }

  Environment rank_environment(int32_t rank, int attempt, uint64_t id) const {
    Environment environment(spec.environment.begin(), spec.environment.end());
    for (const auto& [name, value] : added_environment) environment[name] = value;
    if (spec.torchrun) {
      const TorchrunSettings& settings = *spec.torchrun;
      TorchrunJob job;
      job.local_world_sizes = {spec.ranks};
      job.role = settings.role;
      job.master_address = settings.master_addr;
      job.master_port = store->port();
      job.restart_count = machine.restarts();
      job.max_restarts = spec.restart.max_restarts;
      job.run_id = settings.run_id;
      if (settings.error_files) job.attempt_dir = attempt_folder(attempt);
      job.signals_to_handle = settings.signals_to_handle;
      job.virtual_local_rank = settings.virtual_local_rank;
      environment = worker_environment(job, rank, environment);
    }
    if (spec.trace) environment[kTraceFdVariable] = std::to_string(kFirstPassedFd);
    // Lets the keeper tell whose orphans are whose (Spawner::kill_tree).
    if (spec.restart.scope == RestartScope::rank) environment["MUSTER_WORKER"] = std::to_string(id);
    return environment;
  }

  struct StreamPlan {
    StreamTarget target;
    bool file, terminal;
  };
  StreamPlan stream_plan(int32_t rank, bool error) const {
    const LogPolicy& logs = spec.logs;
    const auto own = logs.ranks.find(rank);
    if (own == logs.ranks.end()) return {error ? logs.err : logs.out, logs.files, logs.terminal};
    const LogPolicy::PerRank& r = own->second;
    return error ? StreamPlan{r.err, r.err_file, r.err_terminal}
                 : StreamPlan{r.out, r.out_file, r.out_terminal};
  }

  void spawn(const JobAction& action) {
    const Status status = try_spawn(action);
    if (status.ok()) return;
    if (status.error().code() == Code::peer_lost) return;  // told by an event
    JobEvent failed{JobEvent::Kind::start_failed};
    failed.id = action.id;
    failed.error = EAGAIN;
    failed.text = status.error().to_string();
    inner.push_back(std::move(failed));
  }

  Status try_spawn(const JobAction& action) {
    Worker& worker = workers[action.id];
    worker.view.rank = Rank{action.rank};
    worker.view.attempt = Attempt{action.attempt};
    worker.view.id = action.id;
    SpawnSpec start;
    start.id = action.id;
    start.argv =
        spec.replace_local_rank ? substitute_local_rank(spec.command, action.rank) : spec.command;
    const Environment environment = rank_environment(action.rank, action.attempt, action.id);
    start.environment.reserve(environment.size());
    for (const auto& [name, value] : environment) start.environment.push_back(name + "=" + value);
    start.directory = spec.directory;
    start.from_template = !spec.template_command.empty();
    worker.template_serial = templates_started;
    if (spec.stdin_to_all || action.rank == 0) start.stdin_fd = STDIN_FILENO;

    const std::string folder = attempt_folder(action.attempt) + "/" + std::to_string(action.rank);
    if (spec.logs.make_directories_first) make_folders(folder);
    if (spec.torchrun && spec.torchrun->error_files) worker.error_file = folder + "/error.json";
    OwnedFd out, err;
    MUSTER_TRY(start.stdout_fd, open_stream(worker, folder, false, out));
    MUSTER_TRY(start.stderr_fd, open_stream(worker, folder, true, err));
    if (spec.trace) {
      TraceRegionOptions options = *spec.trace;
      options.rank = action.rank;
      options.attempt = action.attempt;
      MUSTER_TRY(TraceRegion region, TraceRegion::create(options));
      worker.trace = std::make_unique<TraceRegion>(std::move(region));
      worker.view.trace = worker.trace.get();
      start.extra_fds.push_back(worker.trace->fd());
      if (spec.hang.enabled) worker.judge.emplace(spec.hang, seams.clock.now());
    }
    return seams.spawner.submit(start);
  }

  // Returns the descriptor for the rank; `keep` owns what must be closed after the start.
  Result<int> open_stream(Worker& worker, const std::string& folder, bool error, OwnedFd& keep) {
    const StreamPlan plan = stream_plan(worker.view.rank.value, error);
    if (plan.target == StreamTarget::discard) return -1;
    if (plan.target == StreamTarget::inherit) return error ? spec.logs.err_fd : spec.logs.out_fd;
    MUSTER_TRY(auto ends, make_pipe());
    LogPump::Stream stream;
    stream.worker = worker.view.id;
    stream.error = error;
    stream.pipe = std::move(ends.first);
    if (plan.file) stream.file = folder + (error ? "/stderr.log" : "/stdout.log");
    stream.terminal = plan.terminal;
    const int32_t rank = worker.view.rank.value;
    stream.label =
        expand_label(spec.logs.label, rank, rank, spec.torchrun ? spec.torchrun->role : "default");
    pump->add(std::move(stream));
    worker.captured = true;
    keep = std::move(ends.second);
    return keep.get();
  }

  // --- causes and restarts

  void close_wave() {
    if (!std::exchange(wave_open, false)) return;
    JobEvent closed{JobEvent::Kind::wave_closed};
    const int64_t oom_now = oom_kills();
    for (int32_t rank : machine.wave()) {
      const JobMachine::RankState& state = machine.rank(rank);
      ExitEvidence& evidence = closed.wave.emplace_back();
      evidence.rank = rank;
      evidence.pid = state.pid;
      evidence.exit = state.exit;
      evidence.start_error = state.start_error;
      evidence.start_errno = state.start_errno;
      evidence.at = state.ended_at;
      evidence.out_of_memory = state.exit.signal == SIGKILL && oom_now > oom_before;
      const auto found = workers.find(state.id);
      if (found == workers.end()) continue;
      if (found->second.captured) evidence.last_lines = pump->last_lines(state.id, kReportedLines);
      if (!found->second.error_file.empty())
        evidence.error_message = error_file_message(read_text(found->second.error_file));
    }
    oom_before = oom_now;
    closed.progress = best_step();
    feed(std::move(closed));
  }

  std::optional<int64_t> best_step() const {
    std::optional<int64_t> best;
    for (const auto& [id, worker] : workers) {
      if (worker.trace == nullptr) continue;
      const ProgressSnapshot page = read_progress(worker.trace->progress());
      if (page.last.count() != 0) best = std::max(best.value_or(0), page.step);
    }
    return best;
  }

  void found_cause(const Cause& cause) {
    event(event_kind::kAttemptVerdict,
          {{"cause", cause_name(cause.kind)}, {"message", cause.reason}}, cause.attempt.value,
          cause.kind == CauseKind::supervision_lost ? -1 : cause.rank.value);
    observer->cause_found(cause);
  }

  void ask_restart(const JobAction& action) {
    const RestartDecision decision =
        observer->before_restart(action.cause, action.scope, Attempt{action.attempt});
    for (const auto& [name, value] : decision.environment) added_environment[name] = value;
    if (decision.allow) {
      event(event_kind::kJobRestart,
            {{"scope", action.scope == RestartScope::rank ? "rank" : "group"},
             {"cause", cause_name(action.cause.kind)}},
            action.attempt, -1);
    }
    JobEvent answer{JobEvent::Kind::decision};
    answer.allow = decision.allow;
    answer.text = decision.reason;
    inner.push_back(std::move(answer));
  }

  // --- progress

  void tick() {
    std::vector<WorkerView> views;
    std::vector<SilentRank> silent;
    size_t running = 0;
    const Nanos now = seams.clock.now();
    for (auto& [id, worker] : workers) {
      views.push_back(worker.view);
      if (!worker.view.running || !worker.judge) continue;
      ++running;
      const ProgressSnapshot progress = read_progress(worker.trace->progress());
      const auto verdict = worker.judge->look(progress, now);
      if (!verdict) continue;
      SilentRank& rank = silent.emplace_back();
      rank = {worker.view.rank.value, progress, *verdict, is_stopped(worker.view.pid)};
      if (rank.stopped) rank.what += "; the process is stopped (SIGSTOP or a debugger)";
    }
    const std::vector<SilentRank> culprits = hang_culprits(silent, running);
    observer->ticked(views);
    if (!culprits.empty()) {
      JobEvent hang{JobEvent::Kind::hang};
      for (const SilentRank& culprit : culprits) hang.ranks.push_back(culprit.rank);
      hang.text = culprits.front().what;
      hang.progress = best_step();
      feed(std::move(hang));
    }
    reactor->after(spec.tick, [this] { tick(); });
  }

  void event(std::string_view kind, nlohmann::json payload, int attempt, int32_t rank,
             Nanos when = Nanos{0}) {
    if (seams.events == nullptr) return;
    Event record;
    record.monotonic = when.count() != 0 ? when : seams.clock.now();
    record.wall = seams.clock.wall() - (seams.clock.now() - record.monotonic);
    record.attempt = attempt;
    record.rank = rank;
    record.kind = kind;
    record.payload = std::move(payload);
    const Result<int64_t> written = seams.events->append(record);
    if (!written.ok()) seams.log.warning("event log", {{"error", written.error().to_string()}});
  }
};

Supervisor::Supervisor(Seams seams, JobSpec spec, JobObserver* observer)
    : impl_(std::make_unique<Impl>(seams, std::move(spec), observer)) {}
Supervisor::~Supervisor() = default;

Result<JobReport> Supervisor::run() {
  return impl_->run();
}

void Supervisor::request_stop(int signal_number) {
  impl_->requested_stop = signal_number;
  if (impl_->reactor != nullptr) impl_->reactor->wake();
}

}  // namespace muster
