// The fallback engine: a few threads that call pread and pwrite. Slower per request than io_uring,
// equal for the megabyte pieces that checkpoints write.
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>

#include "sys/io_queue_engines.h"

namespace muster {
namespace {

struct Request {
  int fd = -1;
  bool write = false;
  std::byte* data = nullptr;  // only read from when `write`
  size_t length = 0;
  int64_t offset = 0;
  uint64_t token = 0;
};

IoQueue::Completion perform(const Request& request) {
  ssize_t moved = -1;
  do {
    moved = request.write ? ::pwrite(request.fd, request.data, request.length, request.offset)
                          : ::pread(request.fd, request.data, request.length, request.offset);
  } while (moved < 0 && errno == EINTR);
  if (moved < 0) return {request.token, errno_error(errno, request.write ? "pwrite" : "pread")};
  return {request.token, static_cast<size_t>(moved)};
}

// submit and complete are called by the owner; `waiting_` and `done_` are shared with the workers
// under `mutex_`; `in_flight_` is the owner's alone.
class ThreadQueue final : public IoQueue {
 public:
  ThreadQueue(size_t depth, const std::string& why) : depth_(depth), engine_("threads: " + why) {
    const size_t workers = std::min<size_t>(depth, 4);
    for (size_t i = 0; i < workers; ++i) workers_.emplace_back([this] { work(); });
  }
  ~ThreadQueue() override {
    {
      const std::lock_guard lock(mutex_);
      stopping_ = true;
    }
    wake_workers_.notify_all();
    for (std::thread& worker : workers_) worker.join();  // what is queued is still performed
  }

  Status submit_write(FileHandle file, std::span<const std::byte> data, int64_t offset,
                      uint64_t token) override {
    return submit({file.id, true, const_cast<std::byte*>(data.data()), data.size(), offset, token});
  }
  Status submit_read(FileHandle file, std::span<std::byte> out, int64_t offset,
                     uint64_t token) override {
    return submit({file.id, false, out.data(), out.size(), offset, token});
  }

  Result<std::vector<Completion>> complete() override {
    std::vector<Completion> done;
    if (in_flight_ == 0) return done;
    {
      std::unique_lock lock(mutex_);
      wake_owner_.wait(lock, [this] { return !done_.empty(); });
      done.swap(done_);
    }
    in_flight_ -= done.size();
    return done;
  }

  size_t in_flight() const override { return in_flight_; }
  std::string_view engine() const override { return engine_; }

 private:
  Status submit(const Request& request) {
    if (in_flight_ >= depth_) {
      return Error(Code::busy, "io queue: " + std::to_string(depth_) + " requests are in flight");
    }
    {
      const std::lock_guard lock(mutex_);
      waiting_.push_back(request);
    }
    ++in_flight_;
    wake_workers_.notify_one();
    return {};
  }

  void work() {
    std::unique_lock lock(mutex_);
    for (;;) {
      wake_workers_.wait(lock, [this] { return stopping_ || !waiting_.empty(); });
      if (waiting_.empty()) return;
      const Request request = waiting_.front();
      waiting_.pop_front();
      lock.unlock();
      Completion completion = perform(request);
      lock.lock();
      done_.push_back(std::move(completion));
      wake_owner_.notify_one();
    }
  }

  const size_t depth_;
  const std::string engine_;
  size_t in_flight_ = 0;
  std::mutex mutex_;
  std::condition_variable wake_workers_, wake_owner_;
  std::deque<Request> waiting_;
  std::vector<Completion> done_;
  bool stopping_ = false;
  std::vector<std::thread> workers_;
};

}  // namespace

Result<std::unique_ptr<IoQueue>> make_thread_queue(size_t depth, const std::string& why) {
  MUSTER_CHECK(depth > 0 && depth <= 4096, depth);
  return std::unique_ptr<IoQueue>(std::make_unique<ThreadQueue>(depth, why));
}

}  // namespace muster
