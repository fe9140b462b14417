// TerminalWriter: hands text to somebody who may read slowly or not at all, without ever waiting
// for them. Regular files are written at once; for terminals and pipes a thread writes from a
// bounded queue, and what does not fit is dropped and counted in lines.
//
// write() is called by one thread at a time; the destructor waits for the queue as long as the
// reader goes on reading, at most kStall without progress.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <mutex>
#include <string>
#include <thread>

#include "base/clock.h"

namespace muster {

class TerminalWriter {
 public:
  // `fd` stays the caller's.
  TerminalWriter(int fd, size_t queue_bytes);
  ~TerminalWriter();

  // `text` is whole lines. Returns how many of them were dropped: all or none.
  int64_t write(std::string text);
  bool interactive() const { return interactive_; }
  // Waits as the destructor does; lines that are given up are counted in the result.
  int64_t finish();

  static constexpr Nanos kStall = std::chrono::seconds{2};

 private:
  void run();

  int fd_;
  bool direct_ = false;
  bool interactive_ = false;
  size_t limit_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::string> queue_;
  size_t queued_ = 0;
  uint64_t written_ = 0;  // bytes; grows while the reader reads
  bool stopping_ = false;
  bool broken_ = false;  // the reader is gone
  bool gave_up_ = false;
  std::thread thread_;
};

}  // namespace muster
