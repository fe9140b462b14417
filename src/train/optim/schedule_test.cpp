#include "train/optim/schedule.h"

#include <gtest/gtest.h>

#include <cmath>

namespace muster {
namespace {

Schedule schedule(ScheduleKind kind) {
  Schedule s;
  s.kind = kind;
  s.lr = 1.0;
  s.min_lr = 0.1;
  s.steps = 101;
  s.warmup_steps = 10;
  s.decay_steps = 20;
  return s;
}

TEST(Schedule, KnownPoints) {
  const struct {
    const char* name;
    ScheduleKind kind;
    int64_t step;
    double want;
  } cases[] = {
      {"the first step already moves", ScheduleKind::cosine, 0, 0.1},
      {"warm-up is linear", ScheduleKind::cosine, 4, 0.5},
      {"its last step has the full rate", ScheduleKind::cosine, 9, 1.0},
      {"the cosine starts at the full rate", ScheduleKind::cosine, 10, 1.0},
      {"half way it is the mean", ScheduleKind::cosine, 55, 0.55},
      {"the last step has the smallest rate", ScheduleKind::cosine, 100, 0.1},
      {"past the end it stays", ScheduleKind::cosine, 5000, 0.1},
      {"wsd holds", ScheduleKind::wsd, 80, 1.0},
      {"wsd decays in a line", ScheduleKind::wsd, 90, 0.55},
      {"wsd ends at the smallest rate", ScheduleKind::wsd, 100, 0.1},
      {"constant never falls", ScheduleKind::constant, 100, 1.0},
  };
  for (const auto& c : cases) {
    SCOPED_TRACE(c.name);
    EXPECT_NEAR(learning_rate(schedule(c.kind), c.step), c.want, 1e-15);
  }
}

TEST(Schedule, NeverRisesAfterWarmupNorLeavesItsRange) {
  for (ScheduleKind kind : {ScheduleKind::constant, ScheduleKind::cosine, ScheduleKind::wsd}) {
    const Schedule s = schedule(kind);
    for (int64_t step = 10; step < 120; ++step) {
      EXPECT_LE(learning_rate(s, step + 1), learning_rate(s, step));
      EXPECT_GE(learning_rate(s, step), s.min_lr);
    }
  }
}

TEST(Schedule, RunsShorterThanTheirPhases) {
  Schedule s = schedule(ScheduleKind::cosine);
  s.steps = s.warmup_steps = 1;
  s.decay_steps = 0;
  EXPECT_EQ(learning_rate(s, 0), 1.0);
  EXPECT_EQ(learning_rate(s, 1), 1.0);  // clamped to the last step, which is warm-up
  s.warmup_steps = 0;
  EXPECT_EQ(learning_rate(s, 0), 0.1);
  s.steps = 5;  // ends inside the warm-up, with the rates a longer run has there
  s.warmup_steps = 10;
  EXPECT_TRUE(validate(s).ok());
  EXPECT_EQ(learning_rate(s, 4), 0.5);
}

TEST(Schedule, ImpossibleSettingsAreNamed) {
  const struct {
    const char* want;
    void (*change)(Schedule&);
  } cases[] = {
      {"lr = -1", [](Schedule& s) { s.lr = -1; }},
      {"lr = nan", [](Schedule& s) { s.lr = std::nan(""); }},
      {"min_lr = 2", [](Schedule& s) { s.min_lr = 2; }},
      {"steps = 0", [](Schedule& s) { s.steps = 0; }},
      {"warmup_steps = -1", [](Schedule& s) { s.warmup_steps = -1; }},
      {"decay_steps = 95", [](Schedule& s) { s.decay_steps = 95; }},
  };
  EXPECT_TRUE(validate(schedule(ScheduleKind::wsd)).ok());
  for (const auto& c : cases) {
    Schedule s = schedule(ScheduleKind::cosine);
    c.change(s);
    const Status status = validate(s);
    ASSERT_FALSE(status.ok()) << c.want;
    EXPECT_NE(status.error().message().find(c.want), std::string::npos) << status.error().message();
  }
  EXPECT_FALSE(parse_schedule("linear").ok());
  EXPECT_EQ(*parse_schedule("wsd"), ScheduleKind::wsd);
}

}  // namespace
}  // namespace muster
