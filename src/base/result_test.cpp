#include "base/result.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <memory>

namespace muster {
namespace {

Result<int> half(int x) {
  if (x % 2 != 0) return Error(Code::invalid_argument, "x = 3 is odd; give an even number");
  return x / 2;
}
Result<int> quarter(int x) {
  MUSTER_TRY(const int h, half(x));
  return half(h).context("second half");
}
Status check_quarter(int x) {
  MUSTER_TRY(quarter(x).ok() ? Status() : Status(Error(Code::io, "no")));
  return {};
}

TEST(Result, TryGoesOnWithTheValueOrReturnsTheError) {
  EXPECT_EQ(quarter(8).value(), 2);
  EXPECT_EQ(quarter(3).error().code(), Code::invalid_argument);
  EXPECT_TRUE(check_quarter(8));
  EXPECT_FALSE(check_quarter(6));
}

TEST(Result, ContextIsPrintedOutermostFirst) {
  auto error = Error(Code::io, "disk on fire").context("write shard 3").context("save step 40");
  EXPECT_EQ(error.to_string(), "save step 40: write shard 3: disk on fire");
  EXPECT_EQ(quarter(6).error().to_string(), "second half: x = 3 is odd; give an even number");
}

TEST(Result, CarriesValuesThatCanOnlyBeMoved) {
  Result<std::unique_ptr<int>> r = std::make_unique<int>(5);
  std::unique_ptr<int> taken = std::move(r).value();
  EXPECT_EQ(*taken, 5);
}

TEST(Result, ErrnoBecomesACodeThatCallersActOn) {
  const struct {
    int value;
    Code code;
  } cases[] = {{ENOENT, Code::not_found},
               {ENOSPC, Code::no_space},
               {EACCES, Code::permission},
               {ENOSYS, Code::unsupported},
               {EPIPE, Code::peer_lost},
               {EADDRINUSE, Code::already_exists},
               {EIO, Code::io}};
  for (const auto& c : cases) EXPECT_EQ(errno_error(c.value, "open /x").code(), c.code) << c.value;
  EXPECT_EQ(errno_error(ENOENT, "open /x").message(), "open /x: No such file or directory");
}

TEST(ResultDeathTest, TakingTheValueOfAnErrorStopsTheProcessWithItsText) {
  EXPECT_DEATH(static_cast<void>(half(3).value()), "x = 3 is odd");
}

}  // namespace
}  // namespace muster
