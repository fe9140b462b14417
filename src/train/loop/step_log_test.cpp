#include "train/loop/step_log.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "train/loop/injection.h"

namespace muster {
namespace {

StepRecord record(int64_t step, int32_t attempt, double loss) {
  StepRecord r;
  r.step = step;
  r.attempt = attempt;
  r.loss = loss;
  r.gradient_norm = 1.5;
  r.tokens = 8192;
  r.batches = "0/1/2";
  return r;
}

TEST(StepLog, KeepsTheLossBitForBit) {
  for (const double loss : {1.0 / 3, 8.317, std::numeric_limits<double>::denorm_min(), -0.0}) {
    EXPECT_EQ(parse_step_line(step_line(record(7, 0, loss))).value().loss, loss);
  }
  EXPECT_TRUE(std::isnan(parse_step_line(step_line(record(7, 0, NAN))).value().loss));
}

TEST(StepLog, TheLastLineOfAStepCountsAndATornEndIsSkipped) {
  const std::string text = step_line(record(1, 0, 5)) + "\n" + step_line(record(2, 0, 4)) + "\n" +
                           "garbage\n" + step_line(record(2, 1, 3)) + "\n" +
                           step_line(record(3, 1, 2)).substr(0, 40);
  int64_t skipped = 0;
  const auto records = parse_step_log(text, &skipped);
  ASSERT_EQ(records.size(), 2u);
  EXPECT_EQ(records[1].loss, 3);
  EXPECT_EQ(records[1].attempt, 1);
  EXPECT_EQ(skipped, 2);
}

TEST(StepLog, RefusesLinesThatLackAField) {
  for (const char* line : {"", "[]", "{}", "{\"step\":1}", "{\"step\":\"1\"}"})
    EXPECT_FALSE(parse_step_line(line)) << line;
}

TEST(Injection, ReadsItsOwnForm) {
  EXPECT_EQ(parse_injection("kill:rank=1,step=60").value(),
            (Injection{Injection::Kind::kill, Rank{1}, 60}));
  EXPECT_EQ(parse_injection("hang:step=3,rank=0").value(),
            (Injection{Injection::Kind::hang, Rank{0}, 3}));
  EXPECT_EQ(injection_text(parse_injection("nan:rank=2,step=9").value()), "nan:rank=2,step=9");
  for (const char* text : {"", "kill", "kill:", "kill:rank=1", "kill:step=1", "kill:rank=1,step=0",
                           "kill:rank=-1,step=2", "die:rank=1,step=2", "kill:rank=1,step=2x",
                           "kill:rank=1,step", "kill:rank=1,step=2,when=3"}) {
    EXPECT_FALSE(parse_injection(text)) << text;
  }
}

}  // namespace
}  // namespace muster
