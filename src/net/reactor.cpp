#include "net/reactor.h"

#include <fmt/format.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <ctime>
#include <limits>

namespace muster {
namespace {

constexpr int kEventsPerWait = 128;
constexpr uint64_t kWakeKey = std::numeric_limits<uint64_t>::max();

uint32_t epoll_bits(Interest interest) {
  return (interest.read ? EPOLLIN : 0u) | (interest.write ? EPOLLOUT : 0u);
}

// Descriptor and generation in one word: an event of a closed and reused descriptor is recognised.
uint64_t key_of(int fd, uint64_t generation) {
  return (generation & 0xffffffffu) << 32 | static_cast<uint32_t>(fd);
}

}  // namespace

Result<std::unique_ptr<Reactor>> Reactor::make(const Clock& clock) {
  OwnedFd epoll(::epoll_create1(EPOLL_CLOEXEC));
  if (!epoll.valid()) return errno_error(errno, "epoll_create1");
  OwnedFd wake_fd(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC));
  if (!wake_fd.valid()) return errno_error(errno, "eventfd");
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.u64 = kWakeKey;
  if (::epoll_ctl(epoll.get(), EPOLL_CTL_ADD, wake_fd.get(), &event) != 0)
    return errno_error(errno, "watch the reactor's wake-up");
  return std::unique_ptr<Reactor>(new Reactor(clock, std::move(epoll), std::move(wake_fd)));
}

Reactor::Reactor(const Clock& clock, OwnedFd epoll, OwnedFd wake_fd)
    : clock_(clock), epoll_(std::move(epoll)), wake_fd_(std::move(wake_fd)) {
  events_.resize(kEventsPerWait * sizeof(epoll_event));
}

Reactor::~Reactor() = default;

Status Reactor::watch(int fd, Interest interest, Handler handler) {
  if (watches_.contains(fd))
    return Error(Code::already_exists, fmt::format("descriptor {} is watched already", fd));
  auto watch = std::make_shared<Watch>(Watch{interest, std::move(handler), next_generation_++});
  epoll_event event{};
  event.events = epoll_bits(interest);
  event.data.u64 = key_of(fd, watch->generation);
  if (::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event) != 0) {
    if (errno == EPERM)
      return Error(Code::unsupported, fmt::format("descriptor {} cannot be polled", fd));
    return errno_error(errno, fmt::format("watch descriptor {}", fd));
  }
  watches_.emplace(fd, std::move(watch));
  return {};
}

Status Reactor::change(int fd, Interest interest) {
  const auto it = watches_.find(fd);
  MUSTER_CHECK(it != watches_.end(), fd);
  if (it->second->interest == interest) return {};
  epoll_event event{};
  event.events = epoll_bits(interest);
  event.data.u64 = key_of(fd, it->second->generation);
  if (::epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, fd, &event) != 0)
    return errno_error(errno, fmt::format("change what is watched on descriptor {}", fd));
  it->second->interest = interest;
  return {};
}

void Reactor::unwatch(int fd) {
  const auto it = watches_.find(fd);
  if (it == watches_.end()) return;
  ::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, fd, nullptr);
  watches_.erase(it);
}

Reactor::TimerId Reactor::at(Nanos deadline, std::function<void()> callback) {
  const TimerId id = next_timer_++;
  timers_.emplace(std::pair{deadline, id}, std::move(callback));
  timer_deadlines_.emplace(id, deadline);
  return id;
}

void Reactor::cancel(TimerId timer) {
  const auto it = timer_deadlines_.find(timer);
  if (it == timer_deadlines_.end()) return;
  timers_.erase({it->second, timer});
  timer_deadlines_.erase(it);
}

void Reactor::wake() const {
  const uint64_t one = 1;
  // A full counter wakes just as well, so a failed write needs no answer.
  [[maybe_unused]] const ssize_t written = ::write(wake_fd_.get(), &one, sizeof one);
}

void Reactor::post(std::function<void()> task) {
  {
    const std::lock_guard lock(posted_mutex_);
    posted_.push_back(std::move(task));
  }
  wake();
}

Result<int> Reactor::run_once(Nanos most) {
  if (!timers_.empty()) most = std::min(most, timers_.begin()->first.first - clock_.now());
  MUSTER_TRY(const int ready, wait(std::max(most, Nanos{0})));
  int ran = run_descriptors(ready);
  ran += run_timers();
  ran += run_posted();
  return ran;
}

Status Reactor::run_until(const std::function<bool()>& done) {
  while (!done()) MUSTER_TRY(run_once(std::chrono::hours{1}));
  return {};
}

Result<int> Reactor::wait(Nanos most) {
  const std::chrono::seconds whole = std::chrono::duration_cast<std::chrono::seconds>(most);
  const timespec timeout{static_cast<time_t>(whole.count()),
                         static_cast<long>((most - whole).count())};
  auto* events = reinterpret_cast<epoll_event*>(events_.data());
  const int ready = ::epoll_pwait2(epoll_.get(), events, kEventsPerWait, &timeout, nullptr);
  if (ready >= 0) return ready;
  if (errno == EINTR) return 0;
  if (errno != ENOSYS) return errno_error(errno, "wait for events");
  // Before Linux 5.11: whole milliseconds, rounded up so that a timer is not asked for in a loop.
  const int64_t milliseconds = std::min<int64_t>((most.count() + 999'999) / 1'000'000, 3'600'000);
  const int old =
      ::epoll_wait(epoll_.get(), events, kEventsPerWait, static_cast<int>(milliseconds));
  if (old >= 0) return old;
  if (errno == EINTR) return 0;
  return errno_error(errno, "wait for events");
}

int Reactor::run_descriptors(int ready) {
  const auto* events = reinterpret_cast<const epoll_event*>(events_.data());
  int ran = 0;
  for (int i = 0; i < ready; ++i) {
    const epoll_event event = events[i];
    if (event.data.u64 == kWakeKey) {
      uint64_t count;
      [[maybe_unused]] const ssize_t drained = ::read(wake_fd_.get(), &count, sizeof count);
      continue;
    }
    const int fd = static_cast<int>(static_cast<uint32_t>(event.data.u64));
    const auto it = watches_.find(fd);
    if (it == watches_.end() || key_of(fd, it->second->generation) != event.data.u64) continue;
    // Held here: the handler may unwatch itself.
    const std::shared_ptr<Watch> watch = it->second;
    const bool hangup = (event.events & (EPOLLHUP | EPOLLERR)) != 0;
    watch->handler({.read = (event.events & EPOLLIN) != 0,
                    .write = (event.events & EPOLLOUT) != 0,
                    .hangup = hangup});
    ++ran;
  }
  return ran;
}

int Reactor::run_timers() {
  int ran = 0;
  const Nanos now = clock_.now();
  // Timers set by these callbacks wait for the next round, so a timer of no delay starves nobody.
  const TimerId first_new = next_timer_;
  for (auto it = timers_.begin(); it != timers_.end() && it->first.first <= now;) {
    if (it->first.second >= first_new) {
      ++it;
      continue;
    }
    const std::function<void()> callback = std::move(it->second);
    timer_deadlines_.erase(it->first.second);
    timers_.erase(it);
    callback();
    ++ran;
    it = timers_.begin();
  }
  return ran;
}

int Reactor::run_posted() {
  std::vector<std::function<void()>> tasks;
  {
    const std::lock_guard lock(posted_mutex_);
    tasks.swap(posted_);
  }
  for (const auto& task : tasks) task();
  return static_cast<int>(tasks.size());
}

}  // namespace muster
