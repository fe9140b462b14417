// LivePanel: shows PanelState on a stream: redrawn in place on a terminal, plain lines elsewhere.
// It never waits for a slow reader: a frame or line that finds no room is left out.
#pragma once

#include <optional>
#include <string>

#include "app/top/panel.h"
#include "base/clock.h"
#include "runtime/supervise/terminal_writer.h"

namespace muster {

class LivePanel {
 public:
  // `clock` must outlive the panel; `fd` stays the caller's. A terminal is redrawn at most four
  // times a second; a plain stream gets a line per `plain_every` and one when the step count passes
  // a multiple of `plain_steps`.
  LivePanel(const Clock& clock, int fd, Nanos plain_every, int64_t plain_steps);

  void show(const PanelState& state);
  // A message above the panel (or just a line).
  void message(const std::string& text);
  // The last state stays on the screen; returns when all is written or the reader has stalled.
  void finish(const PanelState& state);

 private:
  void draw(const PanelState& state);
  std::string erasure() const;
  bool write(std::string text);

  const Clock& clock_;
  int fd_;
  std::optional<TerminalWriter> out_;  // from the first text to finish()
  bool terminal_;
  Nanos plain_every_, last_shown_{-1};
  int64_t plain_steps_, last_step_ = -1;
  int lines_drawn_ = 0;
};

}  // namespace muster
