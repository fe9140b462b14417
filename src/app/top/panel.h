// Panel: the live view of a training run. Pure: state -> lines of text; LivePanel (live_panel.h)
// puts them on a terminal. Shares are 0 … 1; NaN prints as "-" (not known yet).
#pragma once

#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "base/clock.h"

namespace muster {

struct PanelRank {
  int32_t rank = 0;
  int64_t step = 0;
  std::string phase;  // "step", "restore", …
  bool running = false;
};

struct PanelState {
  std::string title;            // run directory or name
  int64_t step = 0, steps = 0;  // done, wanted
  double loss = NAN;
  std::vector<double> losses;  // oldest first, for the curve
  double tokens_per_second = NAN;
  double mfu = NAN;
  std::string mfu_label;                                              // "exact/measured-peak"
  double exposed_comm = NAN, data_wait = NAN, checkpoint_wait = NAN;  // shares of step time
  double goodput = NAN;       // share of rank time spent in steps that count
  Nanos elapsed{0}, eta{-1};  // eta < 0: not known yet
  int restarts = 0;
  std::vector<PanelRank> ranks;
  std::vector<std::string> events;  // newest last
};

// One line for logs and pipes.
std::string panel_line(const PanelState& state);

// Lines no wider than `width` columns (at least 40), for a terminal; with `colour`, ANSI colours
// besides.
std::vector<std::string> panel_lines(const PanelState& state, int width, bool colour);

// `columns` block characters for the last values, scaled to their own range; non-finite values
// print as blanks.
std::string sparkline(const std::vector<double>& values, int columns);

}  // namespace muster
