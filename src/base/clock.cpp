#include "base/clock.h"

#include <cerrno>
#include <ctime>

namespace muster {

static Nanos read(clockid_t id) {
  timespec t;
  clock_gettime(id, &t);
  return Nanos{static_cast<int64_t>(t.tv_sec) * 1'000'000'000 + t.tv_nsec};
}

Nanos RealClock::now() const {
  return read(CLOCK_MONOTONIC);
}
Nanos RealClock::wall() const {
  return read(CLOCK_REALTIME);
}

void RealClock::sleep_until(Nanos deadline) {
  const timespec t{deadline.count() / 1'000'000'000, deadline.count() % 1'000'000'000};
  while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, nullptr) == EINTR) {
  }
}

}  // namespace muster
