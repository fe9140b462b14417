// Spawner: the seam to processes. It starts them, reports how they ended, signals them and makes
// sure that no descendant of theirs survives. Two implementations: RealSpawner (real_spawner.h),
// behind which a keeper process is the parent of all workers, and SimSpawner (sim_spawner.h).
//
// Everything is asynchronous: submit() queues a start; started, start_failed and exited events come
// out of take_events() in the order in which they happened. Invariants:
//  - every submitted id gives exactly one of start_failed or (started, later exited), unless the
//    keeper is lost, after which one `lost` event is the last;
//  - when an exited event comes out, the process is reaped: its pid may be in use by another one.
// One thread uses a Spawner.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "sys/owned_fd.h"

namespace muster {

struct SpawnSpec {
  uint64_t id = 0;  // chosen by the caller, never used twice with one Spawner
  // argv[0] without '/' is looked up in the PATH of `environment`.
  std::vector<std::string> argv;
  std::vector<std::string> environment;  // "NAME=value", all of it
  std::string directory;                 // empty = the caller's
  // Descriptors of the caller, duplicated for the child; they stay the caller's. -1 = /dev/null.
  int stdin_fd = -1;
  int stdout_fd = -1;
  int stderr_fd = -1;
  std::vector<int> extra_fds;  // become 3, 4, … in the child; at most kMaxExtraFds
  // Fork from the template process (start_template) instead of exec: argv, environment, directory
  // and descriptors reach the forked process.
  bool from_template = false;
};
inline constexpr size_t kMaxExtraFds = 12;

// How a process ended and what it used.
struct ExitInfo {
  int code = 0;    // exit code, 0 if it died by a signal
  int signal = 0;  // 0 if it exited
  bool core = false;
  Nanos user{0};
  Nanos system{0};
  int64_t max_rss_bytes = 0;

  bool success() const { return code == 0 && signal == 0; }
  // What a shell reports: the code, or 128 + signal.
  int shell_code() const { return signal != 0 ? 128 + signal : code; }
};

struct SpawnEvent {
  enum class Kind {
    started,       // id, pid, pidfd
    start_failed,  // id, error (errno) and text
    exited,        // id, pid, exit
    swept,  // answer to kill_all: no descendant is left (text = "" or what could not be killed)
    lost,   // the keeper is gone; everything below it was killed
  };
  Kind kind = Kind::lost;
  uint64_t id = 0;
  pid_t pid = 0;
  OwnedFd pidfd;  // valid where the kernel has pidfds
  int error = 0;
  std::string text;
  ExitInfo exit;
  Nanos when{0};  // monotonic, taken where it happened
};

enum class SignalScope { leader, group };

class Spawner {
 public:
  virtual ~Spawner() = default;

  // Errors: invalid_argument (empty argv, too many descriptors), peer_lost (keeper gone), timeout
  // (keeper does not take requests).
  virtual Status submit(const SpawnSpec& spec) = 0;
  // Starts the template process that `from_template` forks from; it reports as a child with this
  // id. One per Spawner; an exited event for it ends the service.
  virtual Status start_template(const SpawnSpec& spec) = 0;

  // A process that has ended already is no error: its exited event is on the way.
  virtual Status signal(uint64_t id, int signal_number, SignalScope scope) = 0;
  // SIGKILL for a worker, its group and every descendant that can be told to be its own.
  virtual Status kill_tree(uint64_t id) = 0;
  // SIGKILL for everything except the template, answered by `swept`.
  virtual Status kill_all() = 0;

  // Readable when take_events() has something. -1 in simulation.
  virtual int event_fd() const = 0;
  virtual std::vector<SpawnEvent> take_events() = 0;

  // One line for people: how a tree is killed here ("cgroup.kill + sweep", "sweep: <why>").
  virtual std::string kill_method() const = 0;
};

}  // namespace muster
