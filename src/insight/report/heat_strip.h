// HeatStrip: step times as rank x step cells, inline SVG. Colour tells how a step compares with the
// median step of the run: level 0 (at most 0.95 of it) to 7 (at least twice). Pure.
#pragma once

#include <string>
#include <vector>

#include "insight/report/report.h"

namespace muster {

// Empty text without steps. More steps or ranks than fit are joined, and a joined cell shows its
// slowest member, so that a single slow step stays visible.
std::string heat_strip_svg(const std::vector<ReportRankStep>& rank_steps);

// 0..7
int heat_level(double seconds, double median_seconds);

}  // namespace muster
