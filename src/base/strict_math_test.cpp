#include "base/strict_math.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "base/philox.h"

namespace muster::strict {
namespace {

// Distance to the exact value (long double libm: 11 more bits) in units of the last place.
double ulps(double value, long double exact) {
  const double rounded = static_cast<double>(exact);
  if (value == rounded) return 0;
  const double step =
      std::max(std::nextafter(std::fabs(rounded), INFINITY) - std::fabs(rounded), 0x1p-1074);
  return static_cast<double>(std::fabs(static_cast<long double>(value) - exact) / step);
}

double uniform(uint64_t i, double low, double high) {
  return low + (high - low) * unit_double(philox_u64(7, i, 0));
}

TEST(StrictMath, ErrorsStayWithinTheStatedUlps) {
  double worst_exp = 0, worst_log = 0, worst_log1p = 0, worst_sin = 0, worst_cos = 0;
  for (uint64_t i = 0; i < 200'000; ++i) {
    const double range = i % 2 ? 1.0 : 700.0;
    const double x = uniform(i, -range, range);
    worst_exp = std::max(worst_exp, ulps(exp(x), std::exp(static_cast<long double>(x))));
    const double positive = i % 2 ? uniform(i, 0.5, 2) : std::exp2(uniform(i, -1070, 1020));
    worst_log =
        std::max(worst_log, ulps(log(positive), std::log(static_cast<long double>(positive))));
    const double near = i % 2 ? uniform(i, -0.7, 3) : std::exp2(uniform(i, -80, 0));
    worst_log1p =
        std::max(worst_log1p, ulps(log1p(near), std::log1p(static_cast<long double>(near))));
    const double angle = i % 3 == 0   ? uniform(i, -4, 4)
                         : i % 3 == 1 ? uniform(i, -1e6, 1e6)
                                      : std::exp2(uniform(i, -40, 29));
    worst_sin = std::max(worst_sin, ulps(sin(angle), std::sin(static_cast<long double>(angle))));
    worst_cos = std::max(worst_cos, ulps(cos(angle), std::cos(static_cast<long double>(angle))));
  }
  EXPECT_LE(worst_exp, 1.0);
  EXPECT_LE(worst_log, 1.0);
  EXPECT_LE(worst_log1p, 2.0);
  EXPECT_LE(worst_sin, 1.0);
  EXPECT_LE(worst_cos, 1.0);
}

TEST(StrictMath, SpecialArguments) {
  const double inf = std::numeric_limits<double>::infinity();
  EXPECT_EQ(exp(0.0), 1.0);
  EXPECT_EQ(exp(-inf), 0.0);
  EXPECT_EQ(exp(inf), inf);
  EXPECT_EQ(exp(710.0), inf);
  EXPECT_EQ(exp(-746.5), 0.0);
  EXPECT_LE(ulps(exp(-740.0), std::exp(-740.0L)), 1.0) << "gradual underflow";
  EXPECT_EQ(log(1.0), 0.0);
  EXPECT_EQ(log(0.0), -inf);
  EXPECT_EQ(log(inf), inf);
  EXPECT_TRUE(std::isnan(log(-1.0)));
  EXPECT_EQ(log1p(-1.0), -inf);
  EXPECT_EQ(log1p(1e-300), 1e-300);
  EXPECT_TRUE(std::isnan(sin(inf)));
  EXPECT_TRUE(std::signbit(sin(-0.0)));
  EXPECT_EQ(cos(0.0), 1.0);
  EXPECT_TRUE(std::isnan(exp(NAN)) && std::isnan(log(NAN)));
}

TEST(StrictMath, Powers) {
  EXPECT_EQ(pow(5e5, 0.0), 1.0);
  EXPECT_EQ(pow(0.0, 2.0), 0.0);
  EXPECT_EQ(pow_int(0.5, 10), 0x1p-10);
  EXPECT_EQ(pow_int(3, 0), 1.0);
  for (double y : {-1.0, -0.0625, 0.5, 0.9375}) {
    EXPECT_NEAR(pow(5e5, y) / std::pow(5e5, y), 1.0, 1e-14) << y;
  }
  EXPECT_NEAR(pow_int(0.999, 1000) / std::pow(0.999, 1000), 1.0, 1e-13);
}

TEST(StrictMathDeathTest, AnglesBeyondTheStatedRangeAreRefused) {
  EXPECT_DEATH(sin(0x1p31), "2\\^30");
}

TEST(StrictMath, NormalNumbersHaveTheMomentsOfTheirLaw) {
  const int n = 200'000;
  double sum = 0, square = 0, fourth = 0;
  for (int i = 0; i < n; ++i) {
    const double x = normal(42, static_cast<uint64_t>(i), 3);
    sum += x;
    square += x * x;
    fourth += x * x * x * x;
  }
  EXPECT_NEAR(sum / n, 0, 0.01);
  EXPECT_NEAR(square / n, 1, 0.015);
  EXPECT_NEAR(fourth / n, 3, 0.15);
  EXPECT_EQ(normal(1, 2, 3), normal(1, 2, 3));
  EXPECT_NE(normal(1, 2, 3), normal(1, 3, 3));
}

// Recorded once: a change of these bits changes every model that was ever initialised.
TEST(StrictMath, BitsNeverChange) {
  EXPECT_EQ(exp(1.0), 0x1.5bf0a8b14576ap+1);
  EXPECT_EQ(log(10.0), 0x1.26bb1bbb55516p+1);
  EXPECT_EQ(sin(1.0), 0x1.aed548f090ceep-1);
  EXPECT_EQ(cos(1.0), 0x1.14a280fb5068bp-1);
}

}  // namespace
}  // namespace muster::strict
