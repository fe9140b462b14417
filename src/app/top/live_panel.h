// LivePanel: shows PanelState on a stream: redrawn in place on a terminal, plain lines elsewhere.
// Writes never wait for longer than the stream takes them; a stream that is gone is forgotten.
#pragma once

#include <string>

#include "app/top/panel.h"
#include "base/clock.h"

namespace muster {

class LivePanel {
 public:
  // `clock` must outlive the panel; `fd` stays the caller's. A terminal is redrawn at most four
  // times a second; a plain stream gets a line per `plain_every` and one when the step count passes
  // a multiple of `plain_steps`.
  LivePanel(const Clock& clock, int fd, Nanos plain_every, int64_t plain_steps);

  bool on_terminal() const { return terminal_; }
  void show(const PanelState& state);
  // A message above the panel (or just a line).
  void message(const std::string& text);
  // The last state stays on the screen.
  void finish(const PanelState& state);

 private:
  void draw(const PanelState& state);
  void erase();
  void write(const std::string& text);

  const Clock& clock_;
  int fd_;
  bool terminal_;
  Nanos plain_every_, last_shown_{-1};
  int64_t plain_steps_, last_step_ = -1;
  int lines_drawn_ = 0;
};

}  // namespace muster
