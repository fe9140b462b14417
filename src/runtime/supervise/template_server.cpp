#include "runtime/supervise/template_server.h"

#include <dirent.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fstream>

#include "base/check.h"
#include "sys/keeper_wire.h"

namespace muster {
namespace {

int template_fd() {
  const char* text = std::getenv(kTemplateFdVariable);
  return text == nullptr ? -1 : std::atoi(text);
}

// Names of the threads besides this one; forking would lose them while they may hold locks.
std::string other_threads() {
  std::string names;
  DIR* dir = opendir("/proc/self/task");
  if (dir == nullptr) return names;
  const std::string own = std::to_string(syscall(SYS_gettid));
  while (const dirent* entry = readdir(dir)) {
    if (entry->d_name[0] == '.' || entry->d_name == own) continue;
    std::string name;
    std::ifstream in("/proc/self/task/" + std::string(entry->d_name) + "/comm");
    std::getline(in, name);
    names += (names.empty() ? "" : ", ") + name;
  }
  closedir(dir);
  return names;
}

struct Forked {
  bool in_rank = false;
  pid_t middle = 0;  // in the rank: its first parent
  pid_t rank = -1;   // in the template
  int error = 0;
};

// Forks a process that is no child of this one: a middle process forks it and ends, so that it
// falls to the nearest subreaper, the keeper. The middle process borrows our memory (vfork), so the
// page tables are copied once.
// What the middle process tells goes through a shared page all the same: sanitizers turn vfork into
// fork.
struct MiddleReport {
  volatile pid_t rank;
  volatile int error;
};

MiddleReport* shared_report() {
  static auto* report = [] {
    void* page = mmap(nullptr, sizeof(MiddleReport), PROT_READ | PROT_WRITE,
                      MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    MUSTER_CHECK(page != MAP_FAILED, errno);
    return static_cast<MiddleReport*>(page);
  }();
  return report;
}

__attribute__((noinline)) Forked fork_orphan() {
  Forked result;
  MiddleReport* const report = shared_report();
  report->rank = -1;
  report->error = ECHILD;
  // The child changes nothing but its own registers and the shared report.
  const pid_t middle = vfork();  // NOLINT(bugprone-unsafe-functions)
  if (middle == 0) {
    const pid_t self = static_cast<pid_t>(syscall(SYS_getpid));
    const pid_t forked = fork();
    if (forked == 0) {
      // A full copy of the template, so returning is safe here.
      result.in_rank = true;
      result.middle = self;
      return result;
    }
    report->rank = forked;
    report->error = forked < 0 ? errno : 0;
    _exit(0);
  }
  if (middle < 0) {
    result.error = errno;
    return result;
  }
  // Once it is waited for, the rank has its new parent.
  while (waitpid(middle, nullptr, 0) < 0 && errno == EINTR) {
  }
  result.rank = report->rank;
  result.error = report->error;
  return result;
}

[[noreturn]] void die(const char* what) {
  dprintf(STDERR_FILENO, "forked rank: %s: %s\n", what, std::strerror(errno));
  _exit(127);
}

// Takes the descriptors to their numbers. Sources may be anywhere, so all are lifted first.
void place_descriptors(const SpawnBody& body) {
  std::vector<int> sources(body.stdio, body.stdio + 3);
  sources.insert(sources.end(), body.extra.begin(), body.extra.end());
  for (int& fd : sources) {
    fd = fcntl(fd, F_DUPFD_CLOEXEC, 3 + static_cast<int>(kMaxExtraFds));
    if (fd < 0) die("pass descriptors");
  }
  for (size_t target = 0; target < sources.size(); ++target)
    if (dup2(sources[target], static_cast<int>(target)) < 0) die("pass descriptors");
  for (size_t unused = sources.size(); unused < 3 + kMaxExtraFds; ++unused)
    close(static_cast<int>(unused));  // the template's socket and placeholders
  for (int fd : sources) close(fd);
}

void replace_environment(const std::vector<char*>& entries) {
  clearenv();
  for (const char* entry : entries) {
    if (entry == nullptr) continue;
    const char* equal = std::strchr(entry, '=');
    if (equal != nullptr)
      setenv(std::string(entry, static_cast<size_t>(equal - entry)).c_str(), equal + 1, 1);
  }
}

// In the rank: becomes what the SpawnSpec says.
TemplateChild settle_in(const Forked& forked, pid_t keeper, const SpawnBody& body) {
  while (getppid() == forked.middle) sched_yield();
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != keeper) _exit(127);  // it died meanwhile; nobody would watch over us
  setsid();
  place_descriptors(body);
  if (body.directory[0] != 0 && chdir(body.directory) != 0) die(body.directory);
  replace_environment(body.environment);
  TemplateChild child;
  for (const char* argument : body.argv)
    if (argument != nullptr) child.argv.emplace_back(argument);
  const std::string& name = child.argv[0];
  prctl(PR_SET_NAME,
        name.c_str() + (name.rfind('/') == std::string::npos ? 0 : name.rfind('/') + 1));
  return child;
}

}  // namespace

bool is_template() {
  return template_fd() >= 0;
}

Result<TemplateChild> serve_template() {
  const int socket = template_fd();
  if (socket < 0)
    return Error(Code::invalid_argument,
                 std::string(kTemplateFdVariable) + " is not set: this process is no template");
  fcntl(socket, F_SETFD, FD_CLOEXEC);
  const std::string threads = other_threads();
  WireWriter ready(KeeperVerb::template_ready, 0);
  const std::string refusal = threads.empty()
                                  ? ""
                                  : "the template process has other threads (" + threads +
                                        ") and cannot be forked; start ranks without a template";
  ready.text(refusal);
  if (send_packet(socket, ready, {}, true) != 0) _exit(0);
  if (!refusal.empty()) return Error(Code::unsupported, refusal);
  WirePacket packet;
  for (;;) {
    if (receive_packet(socket, packet, true) <= 0) _exit(0);
    WireReader in(packet.bytes);
    if (static_cast<KeeperVerb>(in.number()) != KeeperVerb::template_fork) continue;
    const auto id = static_cast<uint64_t>(in.number());
    const pid_t keeper = static_cast<pid_t>(in.number());
    const SpawnBody body = read_spawn_body(in, packet);
    const Forked forked = fork_orphan();
    if (forked.in_rank) {
      TemplateChild child = settle_in(forked, keeper, body);
      packet.fds.clear();
      return child;
    }
    WireWriter answer(KeeperVerb::template_forked, id);
    answer.number(forked.rank);
    answer.number(forked.error);
    answer.text(forked.error == 0 ? "" : std::string("fork: ") + std::strerror(forked.error));
    if (send_packet(socket, answer, {}, true) != 0) _exit(0);
  }
}

}  // namespace muster
