#include "runtime/supervise/terminal_writer.h"

#include <poll.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

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

TerminalWriter::TerminalWriter(int fd, size_t queue_bytes) : fd_(fd), limit_(queue_bytes) {
  struct stat info;
  direct_ =
      fstat(fd, &info) == 0 && (S_ISREG(info.st_mode) || S_ISCHR(info.st_mode)) && isatty(fd) == 0;
  interactive_ = isatty(fd) != 0;
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
  std::unique_lock lock(mutex_);
  if (broken_ || gave_up_ || queued_ + text.size() > limit_) return count_lines(text);
  if (!thread_.joinable()) thread_ = std::thread([this] { run(); });
  queued_ += text.size();
  queue_.push_back(std::move(text));
  changed_.notify_all();
  return 0;
}

void TerminalWriter::run() {
  sigset_t all;
  sigfillset(&all);
  pthread_sigmask(SIG_BLOCK, &all, nullptr);
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [&] { return stopping_ || !queue_.empty(); });
    if (queue_.empty() || gave_up_) return;
    std::string text = std::move(queue_.front());
    queue_.pop_front();
    lock.unlock();
    // In pieces, so that progress shows.
    bool whole = true;
    for (size_t done = 0; done < text.size() && whole; done += 4096) {
      const size_t n = std::min<size_t>(4096, text.size() - done);
      whole = write_fully(fd_, text.data() + done, n);
      lock.lock();
      written_ += n;
      if (gave_up_) return;
      lock.unlock();
    }
    lock.lock();
    queued_ -= text.size();
    if (!whole) {
      broken_ = true;
      changed_.notify_all();
      return;
    }
    changed_.notify_all();
  }
}

int64_t TerminalWriter::finish() {
  if (!thread_.joinable()) return 0;
  int64_t lost = 0;
  {
    std::unique_lock lock(mutex_);
    stopping_ = true;
    changed_.notify_all();
    uint64_t seen = written_;
    while (!broken_ && queued_ > 0) {
      changed_.wait_for(lock, kStall);
      if (written_ == seen && queued_ > 0 && !broken_) {
        gave_up_ = true;
        break;
      }
      seen = written_;
    }
    for (const std::string& text : queue_) lost += count_lines(text);
    queue_.clear();
  }
  if (gave_up_) {
    // It may be inside write(2) for ever; the process is about to end and takes it along.
    thread_.detach();
  } else {
    thread_.join();
  }
  return lost;
}

}  // namespace muster
