#include "runtime/supervise/log_pump.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <condition_variable>
#include <cstring>
#include <map>
#include <mutex>
#include <thread>
#include <unordered_map>

#include "runtime/supervise/line_assembler.h"
#include "runtime/supervise/terminal_writer.h"

namespace muster {
namespace {

constexpr size_t kReadBytes = 256 << 10;
constexpr size_t kTailBytes = 8 << 10;

// The last bytes of a stream, cheap to append to.
class Tail {
 public:
  void append(std::string_view bytes) {
    if (bytes.size() >= kTailBytes) {
      text_.assign(bytes.substr(bytes.size() - kTailBytes));
      cut_ = true;
      return;
    }
    text_.append(bytes);
    if (text_.size() > 2 * kTailBytes) {
      text_.erase(0, text_.size() - kTailBytes);
      cut_ = true;
    }
  }
  std::vector<std::string> lines(size_t count) const {
    std::vector<std::string> lines = last_lines_of(text_, count + 1);
    // The first of a cut text is not whole.
    if (lines.size() > count || (cut_ && lines.size() > 1)) lines.erase(lines.begin());
    return lines;
  }
  bool empty() const { return text_.empty(); }

 private:
  std::string text_;
  bool cut_ = false;
};

bool make_parents(const std::string& path) {
  for (size_t slash = path.find('/', 1); slash != std::string::npos;
       slash = path.find('/', slash + 1)) {
    const std::string folder = path.substr(0, slash);
    if (mkdir(folder.c_str(), 0755) != 0 && errno != EEXIST) return false;
  }
  return true;
}

}  // namespace

struct LogPump::Impl {
  struct Source {
    Stream spec;
    LineAssembler lines;
    Tail tail;
    OwnedFd file;
    bool file_failed = false;
    bool ended = false;
    size_t bytes = 0;  // read so far
    Nanos pending_since{0};
    explicit Source(Stream s) : spec(std::move(s)), lines(spec.label) {}
  };
  struct Question {
    uint64_t worker;
    size_t count;
    bool answered = false;
    std::vector<std::string> lines;
  };

  const Clock* clock = nullptr;
  Options options;
  OwnedFd epoll, wake;
  std::unique_ptr<TerminalWriter> out, err;

  mutable std::mutex mutex;  // guards what follows
  std::condition_variable answered;
  std::vector<std::unique_ptr<Source>> arriving;
  std::vector<Question*> questions;
  std::vector<uint64_t> forgotten;
  Drops drops;
  bool finishing = false;
  Nanos stall{0}, finish_by{0};

  // The pump's thread only.
  std::vector<std::unique_ptr<Source>> sources;
  std::unordered_map<uint64_t, std::vector<Source*>> by_worker;
  size_t open = 0;
  std::string out_batch, err_batch;
  Nanos last_read{0};  // when bytes came, or finishing began
  std::vector<char> buffer = std::vector<char>(kReadBytes);
  std::thread thread;

  void notify() const {
    const uint64_t one = 1;
    if (::write(wake.get(), &one, sizeof one) < 0) return;  // full = it is awake already
  }

  void run() {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, nullptr);
    epoll_event events[128];
    for (;;) {
      if (take_orders()) break;
      const int n = epoll_wait(epoll.get(), events, 128, wait_ms());
      for (int i = 0; i < n; ++i) {
        if (events[i].data.ptr == nullptr) {
          uint64_t count;
          if (read(wake.get(), &count, sizeof count) < 0) continue;
        } else {
          pull(*static_cast<Source*>(events[i].data.ptr));
        }
      }
      if (out->interactive() || err->interactive()) flush_old_partials();
      write_batches();
    }
    for (auto& source : sources) {
      if (source->ended) continue;
      int unread = 0;
      if (ioctl(source->spec.pipe.get(), FIONREAD, &unread) == 0) {
        std::lock_guard lock(mutex);
        drops.unread_bytes += unread;
      }
      end(*source);
    }
    write_batches();
  }

  int wait_ms() {
    std::lock_guard lock(mutex);
    if (finishing) {
      const Nanos left = std::min(finish_by, last_read + stall) - clock->now();
      return static_cast<int>(std::max<int64_t>(0, left.count() / 1'000'000 + 1));
    }
    return out->interactive() || err->interactive() ? 25 : -1;
  }

  // Returns true when the thread shall end.
  bool take_orders() {
    std::vector<Question*> asked;
    std::vector<uint64_t> old;
    {
      std::lock_guard lock(mutex);
      for (auto& source : arriving) {
        epoll_event event{};
        event.events = EPOLLIN;
        event.data.ptr = source.get();
        epoll_ctl(epoll.get(), EPOLL_CTL_ADD, source->spec.pipe.get(), &event);
        by_worker[source->spec.worker].push_back(source.get());
        sources.push_back(std::move(source));
        ++open;
      }
      arriving.clear();
      asked.swap(questions);
      old.swap(forgotten);
    }
    for (uint64_t worker : old) forget(worker);
    for (Question* question : asked) answer(*question);
    std::lock_guard lock(mutex);
    if (!finishing || !arriving.empty()) return false;
    if (last_read == Nanos{0}) last_read = clock->now();
    return open == 0 || clock->now() >= std::min(finish_by, last_read + stall);
  }

  void forget(uint64_t worker) {
    for (Source* source : by_worker[worker])
      if (!source->ended) end(*source);
    by_worker.erase(worker);
    std::erase_if(sources, [&](const auto& source) { return source->spec.worker == worker; });
  }

  void answer(Question& question) {
    std::vector<std::string> lines;
    for (Source* source : by_worker[question.worker]) {
      const int capacity = fcntl(source->spec.pipe.get(), F_GETPIPE_SZ);
      for (size_t read = 0; !source->ended && read < static_cast<size_t>(std::max(capacity, 1));) {
        const size_t before = source->bytes;
        if (!pull(*source)) break;
        read += source->bytes - before;
      }
      if (lines.empty() || source->spec.error) {
        std::vector<std::string> found = source->tail.lines(question.count);
        if (!found.empty()) lines = std::move(found);
      }
    }
    write_batches();
    std::lock_guard lock(mutex);
    question.lines = std::move(lines);
    question.answered = true;
    answered.notify_all();
  }

  // One read. False: nothing more is there now.
  bool pull(Source& source) {
    const ssize_t n = read(source.spec.pipe.get(), buffer.data(), buffer.size());
    if (n < 0) {
      if (errno == EINTR) return true;
      if (errno == EAGAIN) return false;
      end(source);
      return false;
    }
    if (n == 0) {
      end(source);
      return false;
    }
    if (last_read != Nanos{0}) last_read = clock->now();
    source.bytes += static_cast<size_t>(n);
    const std::string_view bytes(buffer.data(), static_cast<size_t>(n));
    source.tail.append(bytes);
    if (!source.spec.file.empty()) write_file(source, bytes);
    if (source.spec.terminal) {
      std::string& batch = source.spec.error ? err_batch : out_batch;
      source.lines.feed(bytes, batch);
      if (source.lines.pending()) source.pending_since = clock->now();
      if (batch.size() >= kReadBytes) write_batches();
    }
    return true;
  }

  void end(Source& source) {
    if (source.spec.terminal) source.lines.flush(source.spec.error ? err_batch : out_batch);
    epoll_ctl(epoll.get(), EPOLL_CTL_DEL, source.spec.pipe.get(), nullptr);
    source.spec.pipe.reset();
    source.file.reset();
    source.ended = true;
    --open;
  }

  void write_file(Source& source, std::string_view bytes) {
    if (!source.file.valid() && !source.file_failed) {
      if (make_parents(source.spec.file))
        source.file.reset(
            ::open(source.spec.file.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644));
      if (!source.file.valid()) fail_file(source, "open");
    }
    while (!bytes.empty() && source.file.valid()) {
      const ssize_t n = ::write(source.file.get(), bytes.data(), bytes.size());
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) {
        fail_file(source, "write");
        break;
      }
      bytes.remove_prefix(static_cast<size_t>(n));
    }
    if (bytes.empty()) return;
    std::lock_guard lock(mutex);
    drops.file_lines += std::count(bytes.begin(), bytes.end(), '\n');
  }

  // A full disk may have room again later, so a file that is open is tried again.
  void fail_file(Source& source, const char* doing) {
    const int error = errno;
    source.file_failed = !source.file.valid();
    std::lock_guard lock(mutex);
    if (drops.file_error.empty())
      drops.file_error = std::string(doing) + " " + source.spec.file + ": " + std::strerror(error);
  }

  void flush_old_partials() {
    const Nanos now = clock->now();
    for (auto& source : sources) {
      if (source->ended || !source->spec.terminal || !source->lines.pending()) continue;
      TerminalWriter& writer = source->spec.error ? *err : *out;
      if (writer.interactive() && now - source->pending_since >= options.partial_flush)
        source->lines.flush(source->spec.error ? err_batch : out_batch);
    }
  }

  void write_batches() {
    int64_t dropped = 0;
    if (!out_batch.empty()) dropped += out->write(std::move(out_batch));
    if (!err_batch.empty()) dropped += err->write(std::move(err_batch));
    out_batch.clear();
    err_batch.clear();
    if (dropped == 0) return;
    std::lock_guard lock(mutex);
    drops.terminal_lines += dropped;
  }
};

LogPump::LogPump() : impl_(std::make_unique<Impl>()) {}

Result<std::unique_ptr<LogPump>> LogPump::start(const Clock& clock, const Options& options) {
  std::unique_ptr<LogPump> pump(new LogPump());
  Impl& impl = *pump->impl_;
  impl.clock = &clock;
  impl.options = options;
  impl.epoll.reset(epoll_create1(EPOLL_CLOEXEC));
  impl.wake.reset(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!impl.epoll || !impl.wake) return errno_error(errno, "set up the log pump");
  epoll_event event{};
  event.events = EPOLLIN;
  epoll_ctl(impl.epoll.get(), EPOLL_CTL_ADD, impl.wake.get(), &event);
  impl.out = std::make_unique<TerminalWriter>(options.out_fd, options.terminal_queue_bytes);
  impl.err = std::make_unique<TerminalWriter>(options.err_fd, options.terminal_queue_bytes);
  impl.thread = std::thread([&impl] { impl.run(); });
  return pump;
}

LogPump::~LogPump() {
  finish(Nanos{0}, Nanos{0});
}

void LogPump::add(Stream stream) {
  {
    std::lock_guard lock(impl_->mutex);
    impl_->arriving.push_back(std::make_unique<Impl::Source>(std::move(stream)));
    // One wake-up serves a whole burst of starts.
    if (impl_->arriving.size() > 1) return;
  }
  impl_->notify();
}

std::vector<std::string> LogPump::last_lines(uint64_t worker, size_t count) {
  Impl::Question question{worker, count, false, {}};
  std::unique_lock lock(impl_->mutex);
  impl_->questions.push_back(&question);
  impl_->notify();
  impl_->answered.wait(lock, [&] { return question.answered; });
  return std::move(question.lines);
}

void LogPump::forget(uint64_t worker) {
  std::lock_guard lock(impl_->mutex);
  impl_->forgotten.push_back(worker);
}

void LogPump::finish(Nanos stall, Nanos most) {
  if (!impl_->thread.joinable()) return;
  {
    std::lock_guard lock(impl_->mutex);
    impl_->finishing = true;
    impl_->stall = stall;
    impl_->finish_by = impl_->clock->now() + most;
  }
  impl_->notify();
  impl_->thread.join();
  const int64_t lost = impl_->out->finish() + impl_->err->finish();
  impl_->drops.terminal_lines += lost;
}

LogPump::Drops LogPump::drops() const {
  std::lock_guard lock(impl_->mutex);
  return impl_->drops;
}

}  // namespace muster
