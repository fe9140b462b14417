#include "sys/thread_team.h"

#include <algorithm>
#include <atomic>
#include <thread>
#include <vector>

#include "base/check.h"

namespace muster {

// Invariant between runs: `pending` is 0 and every worker waits for `generation` to move. `body` is
// written before the generation moves and read after, so it needs no lock.
struct ThreadTeam::State {
  std::atomic<uint32_t> generation{0};
  std::atomic<int> pending{0};
  std::atomic<bool> stopping{false};
  const std::function<void(int)>* body = nullptr;
  bool running = false;
  std::vector<std::thread> workers;

  void work(int member) {
    for (uint32_t seen = 0;;) {
      generation.wait(seen, std::memory_order_acquire);
      seen = generation.load(std::memory_order_acquire);
      if (stopping.load(std::memory_order_acquire)) return;
      (*body)(member);
      if (pending.fetch_sub(1, std::memory_order_acq_rel) == 1) pending.notify_one();
    }
  }
};

ThreadTeam::ThreadTeam(int threads) : threads_(threads) {
  MUSTER_CHECK(threads >= 1, threads);
}

ThreadTeam::~ThreadTeam() {
  if (!state_) return;
  state_->stopping.store(true, std::memory_order_release);
  state_->generation.fetch_add(1, std::memory_order_acq_rel);
  state_->generation.notify_all();
  for (std::thread& worker : state_->workers) worker.join();
}

void ThreadTeam::run(const std::function<void(int)>& body) {
  if (threads_ == 1) return body(0);
  if (!state_) {
    state_ = std::make_unique<State>();
    State* state = state_.get();
    for (int member = 1; member < threads_; ++member) {
      state->workers.emplace_back([state, member] { state->work(member); });
    }
  }
  MUSTER_CHECK(!state_->running, "ThreadTeam::run called inside its own body");
  state_->running = true;
  state_->body = &body;
  state_->pending.store(threads_ - 1, std::memory_order_relaxed);
  state_->generation.fetch_add(1, std::memory_order_acq_rel);
  state_->generation.notify_all();
  body(0);
  for (int left; (left = state_->pending.load(std::memory_order_acquire)) != 0;) {
    state_->pending.wait(left, std::memory_order_acquire);
  }
  state_->running = false;
}

void ThreadTeam::parallel_for(int64_t n, int64_t grain,
                              const std::function<void(int64_t, int64_t, int)>& body) {
  MUSTER_CHECK(grain >= 1, grain);
  if (n <= 0) return;
  const int64_t grains = (n + grain - 1) / grain;
  if (threads_ == 1 || grains == 1) return body(0, n, 0);
  const auto part = [&](int member) {
    const int64_t begin = grains * member / threads_ * grain;
    const int64_t end = std::min(n, grains * (member + 1) / threads_ * grain);
    if (begin < end) body(begin, end, member);
  };
  run(std::ref(part));  // a reference fits into std::function without the heap
}

}  // namespace muster
