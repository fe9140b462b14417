#include "sys/real_spawner.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "sys/exec_child.h"
#include "sys/keeper.h"
#include "sys/keeper_wire.h"
#include "sys/pidfd.h"
#include "sys/process_tree.h"

namespace muster {
namespace {

constexpr int kSendLimitMs = 10'000;

// Three descriptors a worker: the usual soft limit of 1,024 ends at a few hundred. Returns the
// limit as it was, which workers get back.
rlimit raise_open_files() {
  rlimit before{};
  getrlimit(RLIMIT_NOFILE, &before);
  rlimit raised = before;
  raised.rlim_cur = raised.rlim_max;
  setrlimit(RLIMIT_NOFILE, &raised);
  return before;
}

Error keeper_lost() {
  return Error(Code::peer_lost, "the keeper process is gone; its workers were killed");
}

}  // namespace

Result<std::unique_ptr<RealSpawner>> RealSpawner::start(const Options& options) {
  std::unique_ptr<RealSpawner> spawner(new RealSpawner());
  spawner->caps_ = probe_process_caps(options.disabled);
  const ProcessCaps& caps = spawner->caps_;
  const rlimit open_files = raise_open_files();
  spawner->earlier_children_ = children_of(getpid(), caps.children_file);
  spawner->make_cgroup();
  if (caps.subreaper) {
    int was = 0;
    prctl(PR_GET_CHILD_SUBREAPER, &was);
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    spawner->made_subreaper_ = was == 0;
  } else {
    spawner->kill_method_ += "; no subreaper, so orphans may escape the sweep";
  }
  int pair[2];
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) != 0)
    return errno_error(errno, "socketpair for the keeper");
  spawner->socket_.reset(pair[0]);
  OwnedFd theirs(pair[1]);
  OwnedFd self = caps.pidfd ? open_pidfd(getpid()) : OwnedFd();
  const CgroupDir* cgroup = spawner->cgroup_.get();
  const KeeperSetup setup{theirs.get(), self.get(),
                          cgroup != nullptr ? cgroup->path().c_str() : nullptr, caps, open_files};
  const pid_t pid = fork();
  if (pid < 0) return errno_error(errno, "fork the keeper");
  if (pid == 0) keeper_main(setup);
  spawner->keeper_ = pid;
  return spawner;
}

void RealSpawner::make_cgroup() {
  if (!caps_.cgroup) {
    kill_method_ = "sweep: cgroup switched off";
    return;
  }
  Result<CgroupDir> made = CgroupDir::make("muster-" + std::to_string(getpid()) + "-" +
                                           std::to_string(RealClock().now().count()));
  if (!made.ok()) {
    kill_method_ = "sweep: " + made.error().to_string();
    return;
  }
  const int error = try_cgroup(caps_, made->fd());
  if (error != 0) {
    made->remove();
    kill_method_ =
        std::string("sweep: a process born in a cgroup does not live: ") + std::strerror(error);
    return;
  }
  cgroup_ = std::make_unique<CgroupDir>(*std::move(made));
  kill_method_ = "cgroup.kill, then sweep";
}

RealSpawner::~RealSpawner() {
  if (keeper_ != 0 && !lost_) {  // no keeper: start() failed on the way
    if (send(WireWriter(KeeperVerb::finish, 0), {}).ok()) {
      // Closing our end lets a keeper that waits for us with an event go on.
      shutdown(socket_.get(), SHUT_RD);
      reap_keeper();
    } else if (!lost_) {
      lose_keeper();
    }
  }
  if (cgroup_ != nullptr) cgroup_->remove();
  if (made_subreaper_) prctl(PR_SET_CHILD_SUBREAPER, 0);
}

void RealSpawner::reap_keeper() {
  while (waitpid(keeper_, nullptr, 0) < 0 && errno == EINTR) {
  }
}

Status RealSpawner::submit(const SpawnSpec& spec) {
  return submit(spec, false);
}
Status RealSpawner::start_template(const SpawnSpec& spec) {
  return submit(spec, true);
}

Status RealSpawner::submit(const SpawnSpec& spec, bool is_template) {
  if (spec.argv.empty())
    return Error(Code::invalid_argument, "a process needs at least a program name");
  if (is_template && !spec.extra_fds.empty())
    return Error(Code::invalid_argument, "a template takes no extra descriptors");
  if (spec.extra_fds.size() > kMaxExtraFds)
    return Error(Code::invalid_argument, "at most " + std::to_string(kMaxExtraFds) +
                                             " extra descriptors can be passed, not " +
                                             std::to_string(spec.extra_fds.size()));
  WireWriter out(is_template ? KeeperVerb::spawn_template : KeeperVerb::spawn, spec.id);
  out.number(spec.from_template ? 1 : 0);
  std::vector<int> fds;
  write_spawn_body(out, spec, fds);
  return send(out, fds);
}

Status RealSpawner::signal(uint64_t id, int signal_number, SignalScope scope) {
  WireWriter out(KeeperVerb::signal, id);
  out.number(signal_number);
  out.number(scope == SignalScope::group ? 1 : 0);
  return send(out, {});
}

Status RealSpawner::kill_tree(uint64_t id) {
  return send(WireWriter(KeeperVerb::kill_tree, id), {});
}
Status RealSpawner::kill_all() {
  return send(WireWriter(KeeperVerb::kill_all, 0), {});
}

// A full socket means that the keeper waits for us to take events: take them, then go on.
Status RealSpawner::send(const WireWriter& message, const std::vector<int>& fds) {
  if (lost_) return keeper_lost();
  for (;;) {
    const int error = send_packet(socket_.get(), message, fds, false);
    if (error == 0) return {};
    if (error == EPIPE || error == ECONNRESET) return keeper_lost();
    if (error != EAGAIN) return errno_error(error, "send a request to the keeper");
    pollfd wait{socket_.get(), POLLIN | POLLOUT, 0};
    const int ready = poll(&wait, 1, kSendLimitMs);
    if (ready == 0)
      return Error(Code::timeout, "the keeper process (pid " + std::to_string(keeper_) +
                                      ") takes no requests; is it stopped?");
    if ((wait.revents & POLLIN) != 0) receive_one();
  }
}

bool RealSpawner::receive_one() {
  WirePacket packet;
  const int got = receive_packet(socket_.get(), packet, false);
  if (got < 0) return false;
  if (got == 0) {
    lose_keeper();
    return false;
  }
  WireReader in(packet.bytes);
  const auto verb = static_cast<KeeperVerb>(in.number());
  SpawnEvent event;
  event.id = static_cast<uint64_t>(in.number());
  switch (verb) {
    case KeeperVerb::started:
      event.kind = SpawnEvent::Kind::started;
      event.pid = static_cast<pid_t>(in.number());
      if (!packet.fds.empty()) event.pidfd = std::move(packet.fds[0]);
      break;
    case KeeperVerb::start_failed:
      event.kind = SpawnEvent::Kind::start_failed;
      event.error = static_cast<int>(in.number());
      event.text = in.text();
      break;
    case KeeperVerb::exited:
      event.kind = SpawnEvent::Kind::exited;
      event.pid = static_cast<pid_t>(in.number());
      event.exit.code = static_cast<int>(in.number());
      event.exit.signal = static_cast<int>(in.number());
      event.exit.core = in.number() != 0;
      event.exit.user = Nanos{in.number()};
      event.exit.system = Nanos{in.number()};
      event.exit.max_rss_bytes = in.number();
      break;
    case KeeperVerb::swept:
      event.kind = SpawnEvent::Kind::swept;
      event.text = in.text();
      break;
    default:
      MUSTER_CHECK(false, static_cast<uint32_t>(verb));
  }
  event.when = Nanos{in.number()};
  inbox_.push_back(std::move(event));
  return true;
}

std::vector<SpawnEvent> RealSpawner::take_events() {
  if (!lost_)
    while (receive_one()) {
    }
  return std::exchange(inbox_, {});
}

// Workers got SIGKILL with their parent, the keeper; what they had started came to us.
void RealSpawner::lose_keeper() {
  lost_ = true;
  ::kill(keeper_, SIGKILL);  // if only its socket is gone; not yet reaped, so the pid is its own
  SweepOptions options;
  options.children_file = caps_.children_file;
  options.keep = earlier_children_;
  options.before_round = [this] {
    if (cgroup_ != nullptr && !cgroup_->kill().ok()) return;  // the sweep goes on without it
  };
  options.reap = [](pid_t pid) {
    while (waitpid(pid, nullptr, 0) < 0 && errno == EINTR) {
    }
  };
  const std::vector<pid_t> left = sweep_descendants(options);
  SpawnEvent event;
  event.kind = SpawnEvent::Kind::lost;
  event.when = RealClock().now();
  for (pid_t pid : left) event.text += " " + std::to_string(pid);
  inbox_.push_back(std::move(event));
}

}  // namespace muster
