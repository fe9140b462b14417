// TerminalWriter: hands text to somebody who may read slowly or not at all, without ever waiting
// for them. Regular files are written at once; for terminals and pipes a thread writes from a
// bounded queue, and what does not fit is dropped and counted in lines.
//
// write() is called by one thread at a time. finish() waits for the queue as long as the reader
// goes on reading, at most kStall without progress; a thread that is stuck in write(2) by then is
// left behind with what it needs.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <thread>

#include "base/clock.h"

namespace muster {

class TerminalWriter {
 public:
  // `fd` stays the caller's.
  TerminalWriter(int fd, size_t queue_bytes);
  ~TerminalWriter();  // finishes

  // `text` is whole lines. Returns how many of them were dropped: all or none.
  int64_t write(std::string text);
  bool interactive() const { return interactive_; }
  // Returns how many lines were given up.
  int64_t finish();

  static constexpr Nanos kStall = std::chrono::seconds{2};

 private:
  struct Queue;

  int fd_;
  bool direct_ = false;
  bool interactive_ = false;
  size_t limit_;
  std::shared_ptr<Queue> queue_;  // with the thread
  std::thread thread_;
};

}  // namespace muster
