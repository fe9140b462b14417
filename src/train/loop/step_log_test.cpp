#include "train/loop/step_log.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "base/clock.h"
#include "sys/sim_files.h"
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

TEST(StepLog, ALineThatACrashToreSwallowsNoOther) {
  SimClock clock;
  SimFiles files(clock);
  ASSERT_TRUE(write_file_durably(files, "log", step_line(record(1, 0, 5)).substr(0, 40)).ok());
  auto log = StepLog::open(files, "log").value();
  ASSERT_TRUE(log.append(record(2, 1, 4)).ok());
  ASSERT_TRUE(log.close().ok());
  int64_t skipped = 0;
  const auto records = parse_step_log(read_file(files, "log").value(), &skipped);
  ASSERT_EQ(records.size(), 1u);
  EXPECT_EQ(records[0].step, 2);
  EXPECT_EQ(skipped, 1);
}

TEST(StepLog, LinesThatFindNoRoomAreWrittenLater) {
  SimClock clock;
  SimFiles files(clock);
  auto log = StepLog::open(files, "log").value();
  ASSERT_TRUE(log.append(record(1, 0, 5)).ok());
  files.set_capacity(static_cast<int64_t>(step_line(record(1, 0, 5)).size()) + 100);
  for (const int64_t step : {2, 3}) {
    const Status full = log.append(record(step, 0, 4));
    ASSERT_FALSE(full.ok());
    EXPECT_EQ(full.error().code(), Code::no_space);
    EXPECT_TRUE(log.waiting());
  }
  files.set_capacity(1 << 20);
  ASSERT_TRUE(log.append(record(4, 0, 3)).ok());
  EXPECT_FALSE(log.waiting());
  ASSERT_TRUE(log.close().ok());
  int64_t skipped = 0;
  const auto records = parse_step_log(read_file(files, "log").value(), &skipped);
  ASSERT_EQ(records.size(), 4u);
  for (int64_t step = 1; step <= 4; ++step)
    EXPECT_EQ(records[static_cast<size_t>(step - 1)].step, step);
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
