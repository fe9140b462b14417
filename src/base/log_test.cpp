#include "base/log.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <functional>
#include <string>

namespace muster {
namespace {

std::string written(Log::Format format, LogLevel least, const std::function<void(Log&)>& body) {
  int ends[2];
  EXPECT_EQ(pipe(ends), 0);
  SimClock clock;
  Log log(clock, ends[1], least, format);
  body(log);
  close(ends[1]);
  char buffer[4096];
  const ssize_t n = read(ends[0], buffer, sizeof buffer);
  close(ends[0]);
  return std::string(buffer, static_cast<size_t>(n));
}

TEST(Log, WritesOneLineWhateverTheValuesHold) {
  EXPECT_EQ(written(Log::Format::text, LogLevel::info,
                    [](Log& log) {
                      log.info("saved", {{"step", 40}, {"path", "a b\nc"}, {"seconds", 0.25}});
                    }),
            "2023-11-14T22:13:20.000Z info    saved step=40 path=\"a b\\nc\" seconds=0.25\n");
  EXPECT_EQ(
      written(Log::Format::json, LogLevel::info, [](Log& log) { log.error("x", {{"n", 1}}); }),
      "{\"time\":\"2023-11-14T22:13:20.000Z\",\"level\":\"error\",\"message\":\"x\",\"n\":1}\n");
}

TEST(Log, LeavesOutWhatIsBelowItsLevel) {
  EXPECT_EQ(written(Log::Format::text, LogLevel::warning,
                    [](Log& log) { log.info("no"), log.warning("yes"); })
                .find("no"),
            std::string::npos);
}

}  // namespace
}  // namespace muster
