// ThreadTeam: a fixed set of threads that run one function together. Workers wait on a futex (no
// spinning on shared cores beyond a short bound). Made lazily so that a process can fork before its
// first parallel call.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

namespace muster {

class ThreadTeam {
 public:
  explicit ThreadTeam(int threads);  // >= 1; the calling thread is member 0
  ~ThreadTeam();
  ThreadTeam(const ThreadTeam&) = delete;
  ThreadTeam& operator=(const ThreadTeam&) = delete;

  int size() const { return threads_; }
  // Runs body(member) on every member and returns when all are done. One caller at a time; not
  // re-entrant.
  void run(const std::function<void(int member)>& body);
  // Splits [0, n) into size() contiguous parts, cut at multiples of `grain`; body(begin, end,
  // member).
  void parallel_for(int64_t n, int64_t grain,
                    const std::function<void(int64_t, int64_t, int)>& body);

 private:
  struct State;
  int threads_;
  std::unique_ptr<State> state_;
};

}  // namespace muster
