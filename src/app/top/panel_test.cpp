#include "app/top/panel.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace muster {
namespace {

PanelState state() {
  PanelState s;
  s.title = "runs/x";
  s.step = 60;
  s.steps = 120;
  s.loss = 4.25;
  s.losses = {8, 7, 6, 5, 4};
  s.tokens_per_second = 12345;
  s.mfu = 0.5;
  s.mfu_label = "exact/measured-peak";
  s.exposed_comm = 0.004;
  s.data_wait = 0;
  s.checkpoint_wait = 0.001;
  s.goodput = 0.97;
  s.eta = std::chrono::seconds{80};
  s.ranks = {{0, 61, "step", true}, {1, 61, "step", true}};
  return s;
}

TEST(Panel, OneLineSaysAll) {
  EXPECT_EQ(panel_line(state()),
            "step 60/120  loss 4.2500  12.3 k tok/s  mfu 50.0% [exact/measured-peak]  comm 0.4%  "
            "data 0.0%  ckpt 0.1%  "
            "goodput 97.0%  eta 80.0 s");
}

TEST(Panel, WhatIsNotKnownIsADash) {
  EXPECT_EQ(panel_line(PanelState{}),
            "step 0/0  loss -  - tok/s  mfu -  comm -  data -  ckpt -  goodput -  eta -");
}

int columns(const std::string& line) {
  int n = 0;
  for (const char c : line) n += (static_cast<unsigned char>(c) & 0xc0) != 0x80;
  return n;
}

TEST(Panel, LinesFitTheirWidth) {
  PanelState s = state();
  s.title = std::string(300, 't');
  s.events = {std::string(300, 'e')};
  for (const int width : {1, 40, 80, 200}) {
    for (const std::string& line : panel_lines(s, width, false))
      EXPECT_LE(columns(line), std::max(width, 40));
  }
}

TEST(Panel, SparklineScalesToItsRange) {
  EXPECT_EQ(sparkline({0, 7, 3.5}, 10), "▁█▄");
  EXPECT_EQ(sparkline({1, 2, 3, 4}, 2), "▁█");
  EXPECT_EQ(sparkline({2, NAN, 2}, 10), "▁ ▁");
  EXPECT_EQ(sparkline({}, 10), "");
}

}  // namespace
}  // namespace muster
