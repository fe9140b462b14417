// The float functions behind softmax and the activations, through the portable lanes; the other
// instruction sets have the same bits (kernels_test.cpp).
#define MUSTER_OPS_ISA scalar
#include "train/ops/vector_math.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "train/ops/ops_fixture.h"

namespace muster::ops {
namespace {

using Vec = scalar::Lanes<float>;

float exp_of(float x) {
  return exp(Vec::set(x)).x[3];
}
float log_of(float x) {
  return log(Vec::set(x)).x[3];
}
float sigmoid_of(float x) {
  return sigmoid(Vec::set(x)).x[3];
}

double ulps(float value, double exact) {
  const float rounded = static_cast<float>(exact);
  const float step = std::nextafter(std::abs(rounded), INFINITY) - std::abs(rounded);
  return std::abs(static_cast<double>(value) - exact) / static_cast<double>(step);
}

TEST(VectorMath, ErrorsStayWithinTwoUlpsOverAllExponents) {
  double worst_exp = 0, worst_sigmoid = 0;
  // Every float of magnitude 2^-30 … 128 in steps of 997 representations, both signs.
  for (uint32_t bits = 0x30800000; bits < 0x43000000; bits += 997) {
    for (float sign : {1.0f, -1.0f}) {
      float x;
      std::memcpy(&x, &bits, 4);
      x *= sign;
      const double e = std::exp(static_cast<double>(x));
      if (e > 1.1754944e-38 && e < 3.4e38) worst_exp = std::max(worst_exp, ulps(exp_of(x), e));
      if (x > -87) {
        const double s = 1 / (1 + std::exp(-static_cast<double>(x)));
        worst_sigmoid = std::max(worst_sigmoid, ulps(sigmoid_of(x), s));
      }
    }
  }
  EXPECT_LE(worst_exp, 1.1);
  EXPECT_LE(worst_sigmoid, 2.6);
}

TEST(VectorMath, LogarithmStaysWithinTwoUlps) {
  double worst = 0;
  for (uint32_t bits = 0x00800000; bits < 0x7f800000; bits += 4999) {
    float x;
    std::memcpy(&x, &bits, 4);
    worst = std::max(worst, ulps(log_of(x), std::log(static_cast<double>(x))));
  }
  for (float x = 0.5f; x < 2; x += 0x1p-14f) {
    worst = std::max(worst, ulps(log_of(x), std::log(static_cast<double>(x))));
  }
  EXPECT_LE(worst, 2.0);
  EXPECT_EQ(log_of(1), 0.0f);
  EXPECT_EQ(log_of(INFINITY), INFINITY);
  EXPECT_TRUE(std::isnan(log_of(NAN)));
}

TEST(VectorMath, Ends) {
  const float inf = std::numeric_limits<float>::infinity();
  EXPECT_EQ(exp_of(0), 1.0f);
  EXPECT_EQ(exp_of(-0.0f), 1.0f);
  EXPECT_EQ(exp_of(-inf), 0.0f);
  EXPECT_EQ(exp_of(-88), 0.0f) << "below the smallest normal number";
  EXPECT_GT(exp_of(-87.33f), 0.0f);
  EXPECT_EQ(exp_of(inf), inf);
  EXPECT_EQ(exp_of(88.73f), inf);
  EXPECT_TRUE(std::isfinite(exp_of(88.72f)));
  EXPECT_TRUE(std::isnan(exp_of(NAN)) && std::isnan(exp_of(-NAN)) && std::isnan(sigmoid_of(NAN)));
  EXPECT_EQ(sigmoid_of(0), 0.5f);
  EXPECT_EQ(sigmoid_of(inf), 1.0f);
  EXPECT_EQ(sigmoid_of(-inf), 0.0f);
}

}  // namespace
}  // namespace muster::ops
