#include "runtime/supervise/terminal_writer.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <condition_variable>
#include <deque>
#include <mutex>

#include "sys/owned_fd.h"

namespace muster {

static int64_t count_lines(const std::string& text) {
  return std::count(text.begin(), text.end(), '\n');
}

// Returns false when nobody can read any more.
static bool write_fully(int fd, const char* data, size_t size) {
  while (size > 0) {
    const ssize_t n = ::write(fd, data, size);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && errno == EAGAIN) {
      pollfd wait{fd, POLLOUT, 0};
      poll(&wait, 1, 1000);
      continue;
    }
    if (n <= 0) return false;
    data += n;
    size -= static_cast<size_t>(n);
  }
  return true;
}

struct TerminalWriter::Queue {
  OwnedFd fd;  // a duplicate
  std::mutex mutex;
  std::condition_variable changed;
  std::deque<std::string> texts;
  size_t bytes = 0;      // waiting or being written
  uint64_t written = 0;  // bytes; grows while the reader reads
  bool stopping = false;
  bool broken = false;  // the reader is gone
  bool given_up = false;

  void run();
};

TerminalWriter::TerminalWriter(int fd, size_t queue_bytes) : fd_(fd), limit_(queue_bytes) {
  struct stat info;
  interactive_ = isatty(fd) != 0;
  direct_ =
      !interactive_ && fstat(fd, &info) == 0 && (S_ISREG(info.st_mode) || S_ISCHR(info.st_mode));
}

TerminalWriter::~TerminalWriter() {
  finish();
}

int64_t TerminalWriter::write(std::string text) {
  if (text.empty()) return 0;
  if (direct_) {
    // A full disk loses lines, and says how many.
    return write_fully(fd_, text.data(), text.size()) ? 0 : count_lines(text);
  }
  if (queue_ == nullptr) {
    queue_ = std::make_shared<Queue>();
    queue_->fd.reset(fcntl(fd_, F_DUPFD_CLOEXEC, 3));
    thread_ = std::thread([queue = queue_] { queue->run(); });
  }
  std::lock_guard lock(queue_->mutex);
  if (queue_->broken || queue_->given_up || queue_->bytes + text.size() > limit_)
    return count_lines(text);
  queue_->bytes += text.size();
  queue_->texts.push_back(std::move(text));
  queue_->changed.notify_all();
  return 0;
}

void TerminalWriter::Queue::run() {
  sigset_t all;
  sigfillset(&all);
  pthread_sigmask(SIG_BLOCK, &all, nullptr);
  std::unique_lock lock(mutex);
  for (;;) {
    changed.wait(lock, [&] { return stopping || !texts.empty(); });
    if (texts.empty() || given_up) return;
    const std::string text = std::move(texts.front());
    texts.pop_front();
    // In pieces, so that progress shows.
    for (size_t done = 0; done < text.size() && !broken; done += 4096) {
      const size_t n = std::min<size_t>(4096, text.size() - done);
      lock.unlock();
      const bool whole = write_fully(fd.get(), text.data() + done, n);
      lock.lock();
      if (given_up) return;
      written += n;
      broken = !whole;
    }
    bytes -= text.size();
    changed.notify_all();
    if (broken) return;
  }
}

int64_t TerminalWriter::finish() {
  if (!thread_.joinable()) return 0;
  int64_t lost = 0;
  bool stuck = false;
  {
    std::unique_lock lock(queue_->mutex);
    Queue& queue = *queue_;
    queue.stopping = true;
    queue.changed.notify_all();
    while (!queue.broken && queue.bytes > 0 && !stuck) {
      const uint64_t seen = queue.written;
      const bool moved = queue.changed.wait_for(
          lock, kStall, [&] { return queue.broken || queue.bytes == 0 || queue.written != seen; });
      stuck = !moved;
    }
    queue.given_up = stuck;
    for (const std::string& text : queue.texts) lost += count_lines(text);
    queue.texts.clear();
  }
  if (stuck)
    thread_.detach();  // inside write(2), perhaps for ever
  else
    thread_.join();
  return lost;
}

}  // namespace muster
