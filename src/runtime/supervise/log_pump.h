// LogPump: reads the output pipes of all ranks on a thread of its own, so that no rank ever waits
// for a slow reader: bytes go to the rank's log file as they are, and to the terminal as whole
// labelled lines. Keeps the last lines of each stream for the report.
//
// Files are opened when the first byte comes. A file that cannot be written loses lines, counted,
// and is reported once.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "sys/owned_fd.h"

namespace muster {

class LogPump {
 public:
  struct Options {
    int out_fd = 1;
    int err_fd = 2;
    size_t terminal_queue_bytes = 64 << 20;
    Nanos partial_flush = std::chrono::milliseconds{50};  // of unfinished lines, on a terminal
  };
  struct Stream {
    uint64_t worker = 0;  // id of the start
    bool error = false;   // standard error
    OwnedFd pipe;         // the read end, non-blocking
    std::string file;     // empty: none
    bool terminal = false;
    std::string label;
  };
  static Result<std::unique_ptr<LogPump>> start(const Clock& clock, const Options& options);
  // finish() first, or what is in the pipes is lost.
  ~LogPump();

  void add(Stream stream);

  // After the worker has ended: reads what its pipes hold at this moment (what it left running may
  // write on for ever) and returns its last lines, of standard error if there are any, else of
  // standard output.
  std::vector<std::string> last_lines(uint64_t worker, size_t count);

  // Drops what is kept of a worker that ended earlier.
  void forget(uint64_t worker);

  // Reads until every pipe is at its end (no writer is left), nothing has come for `stall`, or
  // `most` has passed, then writes everything out. What a pipe still holds then is counted.
  void finish(Nanos stall, Nanos most);

  struct Drops {
    int64_t terminal_lines = 0;
    int64_t file_lines = 0;
    int64_t unread_bytes = 0;  // in pipes that finish() gave up
    std::string file_error;    // the first one
  };
  Drops drops() const;

 private:
  LogPump();
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace muster
