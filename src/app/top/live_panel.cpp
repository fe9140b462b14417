#include "app/top/live_panel.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <utility>

namespace muster {

// Some hundred frames.
constexpr size_t kQueueBytes = 256 << 10;

static bool is_dumb_terminal() {
  const char* term = std::getenv("TERM");
  return term == nullptr || std::strcmp(term, "dumb") == 0;
}

LivePanel::LivePanel(const Clock& clock, int fd, Nanos plain_every, int64_t plain_steps)
    : clock_(clock),
      fd_(fd),
      terminal_(isatty(fd) == 1 && !is_dumb_terminal()),
      plain_every_(plain_every),
      plain_steps_(plain_steps) {}

bool LivePanel::write(std::string text) {
  if (!out_) out_.emplace(fd_, kQueueBytes);
  return out_->write(std::move(text)) == 0;
}

std::string LivePanel::erasure() const {
  return lines_drawn_ > 0 ? "\x1b[" + std::to_string(lines_drawn_) + "A\x1b[J" : std::string();
}

void LivePanel::draw(const PanelState& state) {
  winsize size{};
  const bool known = ioctl(fd_, TIOCGWINSZ, &size) == 0 && size.ws_col > 0;
  // One column is kept free: a full last column makes some terminals wrap.
  const auto lines =
      panel_lines(state, (known ? size.ws_col : 100) - 1, std::getenv("NO_COLOR") == nullptr);
  std::string text = erasure();
  for (const std::string& line : lines) text += line + "\n";
  // A frame that found no room leaves the one before it on the screen.
  if (write(std::move(text))) lines_drawn_ = static_cast<int>(lines.size());
}

void LivePanel::show(const PanelState& state) {
  const Nanos now = clock_.now();
  if (terminal_) {
    if (last_shown_.count() >= 0 && now - last_shown_ < std::chrono::milliseconds{250}) return;
    draw(state);
  } else {
    const bool passed = plain_steps_ > 0 &&
                        state.step / plain_steps_ != last_step_ / plain_steps_ &&
                        state.step != last_step_;
    if (last_step_ >= 0 &&
        (state.step == last_step_ || (!passed && now - last_shown_ < plain_every_)))
      return;
    if (state.step == 0) return;
    write(panel_line(state) + "\n");
  }
  last_shown_ = now;
  last_step_ = state.step;
}

void LivePanel::message(const std::string& text) {
  if (write(erasure() + text + "\n")) lines_drawn_ = 0;
  last_shown_ = Nanos{-1};
}

void LivePanel::finish(const PanelState& state) {
  if (terminal_)
    draw(state);
  else
    write(panel_line(state) + "\n");
  lines_drawn_ = 0;
  out_.reset();  // waits for the reader, as long as it reads
}

}  // namespace muster
