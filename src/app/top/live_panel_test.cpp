#include "app/top/live_panel.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <string>

#include "sys/owned_fd.h"

namespace muster {
namespace {

struct Pipe {
  OwnedFd read, write;
  Pipe() {
    int fds[2];
    EXPECT_EQ(pipe2(fds, O_CLOEXEC), 0);
    read.reset(fds[0]);
    write.reset(fds[1]);
  }
  std::string rest() {
    write.reset();
    std::string text;
    char buffer[4096];
    for (ssize_t n; (n = ::read(read.get(), buffer, sizeof buffer)) > 0;)
      text.append(buffer, static_cast<size_t>(n));
    return text;
  }
};

PanelState at_step(int64_t step) {
  PanelState state;
  state.step = step;
  state.steps = 100;
  return state;
}

TEST(LivePanel, APlainStreamGetsWholeLinesAndTheLastState) {
  Pipe pipe;
  SimClock clock;
  LivePanel panel(clock, pipe.write.get(), std::chrono::seconds{10}, 10);
  for (int64_t step = 0; step <= 25; ++step) panel.show(at_step(step));
  panel.message("warning: something");
  panel.finish(at_step(100));
  // The first step, every tenth, the message, the end; no control characters.
  EXPECT_EQ(pipe.rest(), panel_line(at_step(1)) + "\n" + panel_line(at_step(10)) + "\n" +
                             panel_line(at_step(20)) + "\n" + "warning: something\n" +
                             panel_line(at_step(100)) + "\n");
}

// The panel is fed by the thread that watches the workers, so it may not wait for the reader.
TEST(LivePanel, AReaderThatDoesNotReadStopsNobody) {
  Pipe pipe;
  SimClock clock;
  LivePanel panel(clock, pipe.write.get(), std::chrono::seconds{10}, 1);
  const std::string line(8000, 'x');
  for (int i = 0; i < 1000; ++i) panel.message(line);  // far more than pipe and queue hold
  panel.show(at_step(1));
  pipe.read.reset();  // the reader goes: what waits is forgotten
  panel.finish(at_step(2));
}

}  // namespace
}  // namespace muster
