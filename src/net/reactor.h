// Reactor: one thread's event loop. Owns: the table of watched descriptors, the timers, the
// wake-up.
//
// Invariants:
//  - callbacks run only inside run_once, on the thread that calls it, one at a time;
//  - a callback may watch, change, unwatch (itself too) and set or cancel timers; after unwatch or
//    cancel returns, that callback does not run again;
//  - timers run in order of deadline, equal deadlines in the order they were set, never early.
// Readiness is level-triggered (epoll). The descriptors stay the callers': unwatch before close.
// wake() and post() may be called from any thread (wake() also from a signal handler); everything
// else belongs to the loop's thread.
//
// Small on purpose: a supervisor needs descriptors, timers and a wake-up, and its decisions are
// pure functions elsewhere, so a coroutine library would add more than it carries.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "net/socket.h"

namespace muster {

struct Interest {
  bool read = false;
  bool write = false;
  bool operator==(const Interest&) const = default;
};

struct Readiness {
  bool read = false;  // bytes, a connection, an exit (pidfd), or end of stream
  bool write = false;
  bool hangup =
      false;  // both directions are gone (EPOLLHUP or EPOLLERR); reported whatever the interest
};

class Reactor {
 public:
  using Handler = std::function<void(Readiness)>;
  using TimerId = uint64_t;  // never 0, never used twice

  // `clock` must outlive the reactor. Errors: of epoll_create1 and eventfd.
  static Result<std::unique_ptr<Reactor>> make(const Clock& clock);
  ~Reactor();
  Reactor(const Reactor&) = delete;
  Reactor& operator=(const Reactor&) = delete;

  const Clock& clock() const { return clock_; }

  // Errors: already_exists if `fd` is watched, unsupported if its kind cannot be polled (regular
  // files).
  Status watch(int fd, Interest interest, Handler handler);
  // `fd` must be watched.
  Status change(int fd, Interest interest);
  // Unknown descriptors are ignored.
  void unwatch(int fd);
  bool watched(int fd) const { return watches_.contains(fd); }

  TimerId at(Nanos deadline, std::function<void()> callback);
  TimerId after(Nanos delay, std::function<void()> callback) {
    return at(clock_.now() + delay, std::move(callback));
  }
  // A timer that ran or never was is ignored.
  void cancel(TimerId timer);

  // Makes the current or next run_once return.
  void wake() const;
  // Runs `task` on the loop's thread at the next run_once.
  void post(std::function<void()> task);

  // Waits for events at most `most` (less if a timer is due earlier; zero = only look), then runs
  // what is ready: descriptors, then due timers, then posted tasks. Returns how many callbacks ran.
  Result<int> run_once(Nanos most);
  // Runs until `done()` holds, asked before every wait.
  Status run_until(const std::function<bool()>& done);

 private:
  struct Watch {
    Interest interest;
    Handler handler;
    uint64_t generation;
  };

  Reactor(const Clock& clock, OwnedFd epoll, OwnedFd wake_fd);
  Result<int> wait(Nanos most);
  int run_descriptors(int ready);
  int run_timers();
  int run_posted();

  const Clock& clock_;
  OwnedFd epoll_;
  OwnedFd wake_fd_;
  std::unordered_map<int, std::shared_ptr<Watch>> watches_;
  uint64_t next_generation_ = 1;
  std::map<std::pair<Nanos, TimerId>, std::function<void()>> timers_;
  std::unordered_map<TimerId, Nanos> timer_deadlines_;
  TimerId next_timer_ = 1;
  std::mutex posted_mutex_;
  std::vector<std::function<void()>> posted_;
  std::vector<char> events_;  // struct epoll_event, kept out of this header
};

}  // namespace muster
