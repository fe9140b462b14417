#include "base/units.h"

#include <gtest/gtest.h>

namespace muster {
namespace {

TEST(Units, ByteCountsAreReadWithTheirUnit) {
  const struct {
    const char* text;
    int64_t count;
  } cases[] = {{"0", 0},         {"512", 512}, {"64KiB", 65536}, {"1.5 GiB", 1610612736},
               {"2MB", 2000000}, {"1kB", 1000}};
  for (const auto& c : cases) EXPECT_EQ(parse_bytes(c.text).value().count, c.count) << c.text;
  for (const char* text : {"", "x", "-1", "1 KB2", "1e30", "nan", "inf", "64 kib"})
    EXPECT_FALSE(parse_bytes(text)) << text;
}

TEST(Units, DurationsNeedAUnit) {
  EXPECT_EQ(parse_duration("250ms").value(), std::chrono::milliseconds(250));
  EXPECT_EQ(parse_duration("1.5 s").value(), std::chrono::milliseconds(1500));
  EXPECT_EQ(parse_duration("2h").value(), std::chrono::hours(2));
  for (const char* text : {"5", "", "ms", "5 parsecs"}) EXPECT_FALSE(parse_duration(text)) << text;
  EXPECT_NE(parse_duration("5").error().message().find("units are ns"), std::string::npos);
}

TEST(Units, PrintedWithThreeDigits) {
  EXPECT_EQ(format_bytes(Bytes{512}), "512 B");
  EXPECT_EQ(format_bytes(Bytes{64 << 20}), "64.0 MiB");
  EXPECT_EQ(format_duration(Nanos{1'230'000'000}), "1.23 s");
  EXPECT_EQ(format_duration(std::chrono::seconds{3 * 3600 + 120}), "3 h 02 min");
  EXPECT_EQ(format_count(1'234'567), "1.23 M");
}

}  // namespace
}  // namespace muster
