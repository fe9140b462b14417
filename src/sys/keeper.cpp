#include "sys/keeper.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <deque>
#include <fstream>
#include <sstream>
#include <string>
#include <unordered_map>
#include <unordered_set>

#include "base/clock.h"
#include "sys/cgroup.h"
#include "sys/exec_child.h"
#include "sys/keeper_wire.h"
#include "sys/pidfd.h"
#include "sys/process_tree.h"

namespace muster {
namespace {

// Descriptors below this are the targets of dup in children, so no source may be there.
constexpr int kFirstOwnFd = 3 + static_cast<int>(kMaxExtraFds) + 1;
constexpr Nanos kTemplateReply = std::chrono::seconds{20};
// How long kill_tree looks again for a process inside execve, or for ever new ones.
constexpr Nanos kTreeLimit = std::chrono::milliseconds{200};

Nanos from_timeval(timeval t) {
  return std::chrono::seconds{t.tv_sec} + std::chrono::microseconds{t.tv_usec};
}

class Keeper {
 public:
  explicit Keeper(const KeeperSetup& setup)
      : caps_(setup.caps), open_files_(setup.open_files), launcher_(setup.caps) {
    take_descriptors(setup);
    block_signals();
    if (setup.cgroup_path == nullptr) return;
    Result<CgroupDir> opened = CgroupDir::open(setup.cgroup_path);
    if (!opened.ok()) return;
    all_groups_ = *std::move(opened);
    make_group();
  }

  [[noreturn]] void run() {
    for (;;) {
      pollfd waits[4] = {{socket_, POLLIN, 0},
                         {signals_, POLLIN, 0},
                         {supervisor_, POLLIN, 0},
                         {template_socket_.get(), POLLIN, 0}};
      // Children on their way to exec tell it by no descriptor.
      if (poll(waits, 4, launcher_.pending() ? 1 : -1) < 0) continue;
      settle(false);
      if (waits[2].revents != 0) end_everything(1);
      if (waits[1].revents != 0) take_signals();
      if (waits[3].revents != 0) take_template();
      if (waits[0].revents != 0) take_request();
    }
  }

 private:
  struct Child {
    uint64_t id;
  };

  // Moves what we need above kFirstOwnFd, fills the numbers below with /dev/null and closes the
  // rest: nothing of the supervisor (locks, sockets, other pipes) may live on in here.
  void take_descriptors(const KeeperSetup& setup) {
    const int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    const auto lift = [](int fd) { return fd < 0 ? -1 : fcntl(fd, F_DUPFD_CLOEXEC, kFirstOwnFd); };
    const int own[] = {lift(setup.socket), lift(setup.supervisor_pidfd), lift(null)};
    const int highest = *std::max_element(std::begin(own), std::end(own));
    for (int fd = 0; fd <= highest; ++fd)
      if (std::find(std::begin(own), std::end(own), fd) == std::end(own)) close(fd);
    if (caps_.close_range)
      syscall(SYS_close_range, highest + 1, ~0U, 0);
    else
      for (int fd = highest + 1; fd < static_cast<int>(sysconf(_SC_OPEN_MAX)); ++fd) close(fd);
    socket_ = own[0];
    supervisor_ = own[1];
    null_ = own[2];
    for (int fd = 0; fd < kFirstOwnFd; ++fd) dup3(null_, fd, fd < 3 ? 0 : O_CLOEXEC);
  }

  void block_signals() {
    signal(SIGPIPE, SIG_DFL);
    signal(SIGCHLD, SIG_DFL);
    sigset_t all;
    sigfillset(&all);
    sigprocmask(SIG_SETMASK, &all, nullptr);
    sigset_t wanted;
    sigemptyset(&wanted);
    for (int number : {SIGCHLD, SIGTERM, SIGINT, SIGHUP, SIGQUIT}) sigaddset(&wanted, number);
    signals_ = signalfd(-1, &wanted, SFD_CLOEXEC | SFD_NONBLOCK);
  }

  void send(const WireWriter& message, std::span<const int> fds = {}) {
    // The supervisor is gone or broken: nobody is left to report to.
    if (send_packet(socket_, message, fds, true) != 0) end_everything(1);
  }

  void take_signals() {
    signalfd_siginfo info;
    bool child = false;
    while (read(signals_, &info, sizeof info) == sizeof info) {
      if (info.ssi_signo != SIGCHLD) end_everything(1);
      child = true;
    }
    if (child) reap_ended();
  }

  void reap_ended() {
    for (;;) {
      siginfo_t info;
      info.si_pid = 0;
      if (waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) != 0 || info.si_pid == 0) return;
      reap(info.si_pid);
    }
  }

  // `pid` has ended and is not yet waited for, so neither its pid nor its group can be reused.
  void reap(pid_t pid) {
    settle(false);  // it has left our memory, so it is among them
    const auto found = children_.find(pid);
    if (found != children_.end()) kill(-pid, SIGKILL);
    int status = 0;
    rusage usage{};
    while (wait4(pid, &status, 0, &usage) < 0 && errno == EINTR) {
    }
    if (found == children_.end()) return;  // an orphan that came to us
    const uint64_t id = found->second.id;
    children_.erase(found);
    pids_.erase(id);
    if (pid == template_pid_) lose_template(status);
    if (ending_) return;
    WireWriter out(KeeperVerb::exited, id);
    out.number(pid);
    out.number(WIFEXITED(status) ? WEXITSTATUS(status) : 0);
    out.number(WIFSIGNALED(status) ? WTERMSIG(status) : 0);
    out.number(WIFSIGNALED(status) && WCOREDUMP(status));
    out.number(from_timeval(usage.ru_utime).count());
    out.number(from_timeval(usage.ru_stime).count());
    out.number(usage.ru_maxrss * 1024);
    out.number(clock_.now().count());
    send(out);
  }

  void take_request() {
    WirePacket packet;
    const int got = receive_packet(socket_, packet, false);
    if (got == 0) end_everything(1);
    if (got < 0) return;
    WireReader in(packet.bytes);
    const auto verb = static_cast<KeeperVerb>(in.number());
    const auto id = static_cast<uint64_t>(in.number());
    switch (verb) {
      case KeeperVerb::spawn:
        if (in.number() != 0)
          ask_template(id, std::move(packet));
        else
          spawn(id, packet, in, false);
        return;
      case KeeperVerb::spawn_template:
        in.number();
        spawn(id, packet, in, true);
        return;
      case KeeperVerb::signal: {
        const int number = static_cast<int>(in.number());
        const bool group = in.number() != 0;
        settle(true);
        const auto found = pids_.find(id);
        if (found != pids_.end())
          kill(group ? -found->second : found->second, number);
        else
          cancel_waiting(id, number);
        return;
      }
      case KeeperVerb::kill_tree:
        kill_tree(id);
        return;
      case KeeperVerb::kill_all:
        kill_all();
        return;
      case KeeperVerb::finish:
        end_everything(0);
      default:
        MUSTER_CHECK(false, static_cast<uint32_t>(verb));
    }
  }

  void fail(uint64_t id, int error, std::string_view text) {
    WireWriter out(KeeperVerb::start_failed, id);
    out.number(error);
    out.text(text);
    out.number(clock_.now().count());
    send(out);
  }

  void started(uint64_t id, pid_t pid, OwnedFd pidfd) {
    children_[pid] = {id};
    pids_[id] = pid;
    WireWriter out(KeeperVerb::started, id);
    out.number(pid);
    out.number(clock_.now().count());
    const int fd = pidfd.get();
    send(out, pidfd ? std::span<const int>(&fd, 1) : std::span<const int>());
  }

  // Tells what became of children on their way to exec; with `all`, of every one.
  void settle(bool all) {
    if (!launcher_.pending()) return;
    for (ExecLauncher::Outcome& outcome : launcher_.settled(all)) {
      if (ending_) continue;
      if (outcome.error != 0) {
        fail(outcome.id, outcome.error, outcome.what + ": " + std::strerror(outcome.error));
      } else {
        started(outcome.id, outcome.pid, std::move(outcome.pidfd));
      }
    }
  }

  void spawn(uint64_t id, WirePacket& packet, WireReader& in, bool is_template) {
    SpawnBody body = read_spawn_body(in, packet);
    const std::string* file = look_up(body.argv[0], body);
    if (file == nullptr) return fail(id, lookup_error_, lookup_text_);

    OwnedFd ours, theirs;
    if (is_template) {
      int pair[2];
      if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) != 0)
        return fail(id, errno, "socketpair for the template");
      ours.reset(pair[0]);
      theirs.reset(pair[1]);
      // Descriptor 3 is its socket; the others hold the numbers that ranks forked from it need.
      body.extra.assign(kMaxExtraFds, null_);
      body.extra[0] = theirs.get();
    }
    ExecPlan plan;
    plan.file = *file;
    plan.argv = std::move(body.argv);
    plan.environment = std::move(body.environment);
    plan.directory = body.directory;
    plan.memory = std::move(packet.bytes);
    for (int i = 0; i < 3; ++i) plan.stdio[i] = body.stdio[i] >= 0 ? body.stdio[i] : null_;
    plan.extra = std::move(body.extra);
    plan.open_files = &open_files_;
    plan.cgroup_fd = is_template ? -1 : group_.fd();
    launcher_.launch(id, std::move(plan));
    if (!is_template) return settle(false);
    settle(true);
    const auto found = pids_.find(id);
    if (found == pids_.end()) return;
    template_pid_ = found->second;
    template_socket_ = std::move(ours);
    template_ready_ = false;
    template_end_.clear();
  }

  // Ranks run the same program, so the last answer is kept. Null: lookup_error_, lookup_text_.
  const std::string* look_up(const std::string& name, const SpawnBody& body) {
    std::string path = "/usr/local/bin:/usr/bin:/bin";
    for (const char* entry : body.environment)
      if (entry != nullptr && std::strncmp(entry, "PATH=", 5) == 0) path = entry + 5;
    std::string key = name + '\0' + body.directory + '\0' + path;
    if (key == lookup_key_) return &lookup_file_;
    Result<std::string> found = find_executable(name, body.directory, path);
    if (!found.ok()) {
      lookup_key_.clear();
      lookup_error_ = found.error().code() == Code::permission ? EACCES : ENOENT;
      lookup_text_ = found.error().message();
      return nullptr;
    }
    lookup_key_ = std::move(key);
    lookup_file_ = *std::move(found);
    return &lookup_file_;
  }

  // --- template

  void ask_template(uint64_t id, WirePacket packet) {
    if (!template_socket_.valid())
      return fail(id, ESRCH, template_end_.empty() ? "no template process runs" : template_end_);
    waiting_.emplace_back(id, std::move(packet));
    if (template_ready_) fork_waiting();
  }

  void take_template() {
    WirePacket packet;
    if (receive_packet(template_socket_.get(), packet, false) <= 0) {
      template_socket_.reset();  // its exit is on the way
      return;
    }
    WireReader in(packet.bytes);
    if (static_cast<KeeperVerb>(in.number()) != KeeperVerb::template_ready) return;
    in.number();
    const std::string refusal = in.text();
    if (!refusal.empty()) {
      template_end_ = refusal;
      template_socket_.reset();
      refuse_waiting();
      return;
    }
    template_ready_ = true;
    fork_waiting();
  }

  void fork_waiting() {
    while (!waiting_.empty() && template_socket_.valid()) {
      auto [id, packet] = std::move(waiting_.front());
      waiting_.pop_front();
      fork_one(id, packet);
    }
    if (!template_socket_.valid()) refuse_waiting();
  }

  // Waits for the answer, so that the new child cannot be reaped before it is known.
  void fork_one(uint64_t id, WirePacket& packet) {
    WireReader in(packet.bytes);
    in.number(), in.number(), in.number();
    const SpawnBody body = read_spawn_body(in, packet);
    SpawnSpec spec;
    for (char* a : body.argv)
      if (a != nullptr) spec.argv.emplace_back(a);
    for (char* e : body.environment)
      if (e != nullptr) spec.environment.emplace_back(e);
    spec.directory = body.directory;
    spec.stdin_fd = body.stdio[0] >= 0 ? body.stdio[0] : null_;
    spec.stdout_fd = body.stdio[1] >= 0 ? body.stdio[1] : null_;
    spec.stderr_fd = body.stdio[2] >= 0 ? body.stdio[2] : null_;
    spec.extra_fds = body.extra;
    WireWriter request(KeeperVerb::template_fork, id);
    request.number(getpid());
    std::vector<int> fds;
    write_spawn_body(request, spec, fds);
    if (send_packet(template_socket_.get(), request, fds, true) != 0)
      return fail(id, EPIPE, "the template process has ended");
    pollfd waits[2] = {{template_socket_.get(), POLLIN, 0}, {supervisor_, POLLIN, 0}};
    const Nanos deadline = clock_.now() + kTemplateReply;
    while (clock_.now() < deadline) {
      if (poll(waits, 2, 100) <= 0) continue;
      if (waits[1].revents != 0) end_everything(1);
      WirePacket answer;
      if (receive_packet(template_socket_.get(), answer, false) <= 0) break;
      WireReader reply(answer.bytes);
      if (static_cast<KeeperVerb>(reply.number()) != KeeperVerb::template_forked) continue;
      reply.number();
      const pid_t pid = static_cast<pid_t>(reply.number());
      const int error = static_cast<int>(reply.number());
      if (error != 0) return fail(id, error, reply.text());
      return started(id, pid, caps_.pidfd ? open_pidfd(pid) : OwnedFd());
    }
    template_socket_.reset();
    fail(id, EPIPE, "the template process did not answer a fork request");
  }

  void lose_template(int status) {
    if (template_socket_.valid() && !ending_) take_template();  // its last words
    template_pid_ = 0;
    template_socket_.reset();
    if (template_end_.empty())
      template_end_ =
          WIFSIGNALED(status)
              ? "the template process died by signal " + std::to_string(WTERMSIG(status))
              : "the template process exited with code " + std::to_string(WEXITSTATUS(status));
    if (!ending_) refuse_waiting();
  }

  // A signal ends a rank that waits for a template to warm up: it has no process yet to get it.
  void cancel_waiting(uint64_t id, int number) {
    const auto found = std::find_if(waiting_.begin(), waiting_.end(),
                                    [id](const auto& entry) { return entry.first == id; });
    if (found == waiting_.end()) return;
    waiting_.erase(found);
    fail(id, ECANCELED, "signal " + std::to_string(number) + " came before it had started");
  }

  void refuse_waiting() {
    while (!waiting_.empty()) {
      const uint64_t id = waiting_.front().first;
      waiting_.pop_front();
      fail(id, ESRCH, template_end_.empty() ? "the template process has ended" : template_end_);
    }
  }

  // --- ending

  // The worker, its group, its descendants, and orphans that carry its mark in their environment.
  // Scans until one scan finds nobody new: what forks meanwhile is found by the next one.
  void kill_tree(uint64_t id) {
    settle(true);
    const auto found = pids_.find(id);
    const std::string mark = "MUSTER_WORKER=" + std::to_string(id);
    const Nanos deadline = clock_.now() + kTreeLimit;
    std::unordered_set<pid_t> killed;
    do {
      bool unknown = false;
      std::vector<pid_t> victims;
      if (found != pids_.end()) victims.push_back(found->second);
      for (pid_t pid : children_of(getpid(), caps_.children_file)) {
        if (children_.contains(pid)) continue;
        const Mark seen = read_mark(pid, mark);
        if (seen == Mark::ours) victims.push_back(pid);
        unknown = unknown || seen == Mark::unknown;
      }
      for (size_t i = 0, roots = victims.size(); i < roots; ++i)
        for (pid_t below : descendants_of(victims[i], caps_.children_file))
          victims.push_back(below);
      bool grew = false;
      for (pid_t pid : victims) {
        if (!killed.insert(pid).second) continue;
        kill(pid, SIGKILL);
        grew = true;
      }
      if (!grew && !unknown) break;
      if (!grew) clock_.sleep_for(std::chrono::microseconds{100});
    } while (clock_.now() < deadline);
    if (found != pids_.end()) kill(-found->second, SIGKILL);
  }

  // Whether a process carries a worker's mark in its environment. `unknown` when it was inside
  // execve, where it has none for a moment: unlike a program with an empty environment, whose
  // start and end (fields 50 and 51 of proc_pid_stat(5)) are the same address.
  enum class Mark { ours, other, unknown };
  static Mark read_mark(pid_t pid, const std::string& mark) {
    const std::string folder = "/proc/" + std::to_string(pid);
    std::ifstream in(folder + "/environ");
    if (!in) return Mark::other;  // gone, or of another user
    std::string entry;
    bool empty = true;
    while (std::getline(in, entry, '\0')) {
      empty = false;
      if (entry == mark) return Mark::ours;
    }
    if (!empty) return Mark::other;
    std::string stat;
    std::ifstream stat_in(folder + "/stat");
    std::getline(stat_in, stat);
    // From the state (field 3) on; the name before it may hold anything.
    const size_t close = stat.rfind(')');
    if (close == std::string::npos) return Mark::other;
    std::istringstream fields(stat.substr(close + 1));
    std::string state, env_start, env_end;
    fields >> state;
    if (state == "Z" || state == "X") return Mark::other;
    for (int i = 4; i <= 50; ++i) fields >> env_start;
    fields >> env_end;
    return env_end == "0" || env_start != env_end ? Mark::unknown : Mark::other;
  }

  std::vector<pid_t> sweep(bool with_template) {
    SweepOptions options;
    options.children_file = caps_.children_file;
    if (!with_template && template_pid_ != 0) options.keep.push_back(template_pid_);
    options.before_round = [this] { kill_group(); };
    options.reap = [this](pid_t pid) { reap(pid); };
    return sweep_descendants(options);
  }

  void make_group() {
    if (all_groups_.fd() < 0) return;
    Result<CgroupDir> made = all_groups_.make_below(std::to_string(next_group_++));
    // Without a group the sweep does all the work.
    group_ = made.ok() ? *std::move(made) : CgroupDir();
  }

  void kill_group() {
    if (group_.fd() < 0) return;
    group_killed_ = true;
    if (!group_.kill().ok()) return;  // the sweep goes on without it
  }

  void kill_all() {
    settle(true);
    refuse_waiting();
    const std::vector<pid_t> left = sweep(false);
    if (group_killed_) {
      group_killed_ = false;
      group_.remove();
      make_group();
    }
    std::string text;
    for (pid_t pid : left) text += (text.empty() ? "" : " ") + std::to_string(pid);
    WireWriter out(KeeperVerb::swept, 0);
    out.text(text);
    out.number(clock_.now().count());
    send(out);
  }

  [[noreturn]] void end_everything(int code) {
    ending_ = true;
    sweep(true);
    group_.remove();
    all_groups_.remove();
    _exit(code);
  }

  RealClock clock_;
  ProcessCaps caps_;
  rlimit open_files_;
  ExecLauncher launcher_;
  int socket_ = -1, supervisor_ = -1, null_ = -1, signals_ = -1;
  CgroupDir all_groups_, group_;  // group_ is below all_groups_ and holds the workers
  int next_group_ = 0;
  bool group_killed_ = false;
  bool ending_ = false;
  std::unordered_map<pid_t, Child> children_;  // the workers and the template
  std::unordered_map<uint64_t, pid_t> pids_;
  std::string lookup_key_, lookup_file_, lookup_text_;
  int lookup_error_ = 0;
  pid_t template_pid_ = 0;
  OwnedFd template_socket_;
  bool template_ready_ = false;
  std::string template_end_;                             // why there is no template any more
  std::deque<std::pair<uint64_t, WirePacket>> waiting_;  // for a template that still warms up
};

}  // namespace

void keeper_main(const KeeperSetup& setup) {
  setsid();
  prctl(PR_SET_NAME, "muster-keeper");
  if (setup.caps.subreaper) prctl(PR_SET_CHILD_SUBREAPER, 1);
  Keeper keeper(setup);
  keeper.run();
}

}  // namespace muster
