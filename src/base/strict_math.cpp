#include "base/strict_math.h"

#include <bit>
#include <cmath>
#include <limits>

#include "base/check.h"
#include "base/philox.h"

namespace muster::strict {
namespace {

// ln 2 and pi/2 in parts: high + low (+ tail) reproduce the number far beyond double precision.
constexpr double kLn2High = 0x1.62e42fefa39efp-1, kLn2Low = 0x1.abc9e3b39803fp-56;
constexpr double kInvLn2 = 0x1.71547652b82fep+0;
constexpr double kHalfPiHigh = 0x1.921fb54442d18p+0, kHalfPiLow = 0x1.1a62633145c07p-54,
                 kHalfPiTail = -0x1.f1976b7ed8fbcp-110;
constexpr double kTwoOverPi = 0x1.45f306dc9c883p-1;
constexpr double kRoundMagic = 0x1.8p52;  // x + magic - magic = nearest integer, ties to even
constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

// 2^n for normal results.
double pow2(int n) {
  return std::bit_cast<double>(static_cast<uint64_t>(n + 1023) << 52);
}

template <int N>
double horner(const double (&c)[N], double x) {
  double sum = c[N - 1];
  for (int i = N - 2; i >= 0; --i) sum = std::fma(sum, x, c[i]);
  return sum;
}

// exp(r) - 1 for |r| <= ln 2 / 2, by Taylor's series to r^13 (remainder below 5e-18).
double expm1_small(double r) {
  static constexpr double c[] = {1.0 / 2,       1.0 / 6,        1.0 / 24,        1.0 / 120,
                                 1.0 / 720,     1.0 / 5040,     1.0 / 40320,     1.0 / 362880,
                                 1.0 / 3628800, 1.0 / 39916800, 1.0 / 479001600, 1.0 / 6227020800};
  return std::fma(r * r, horner(c, r), r);
}

// log(1 + f) for 1 + f in [1/sqrt(2), sqrt(2)]: with s = f / (2 + f), log(1 + f) = 2 atanh(s)
// = f - s (f - R) for the even series R below; written so that the leading f is added last and
// exactly.
struct LogParts {
  double f, correction;  // log(1 + f) = f - correction
};
LogParts log_small(double f) {
  static constexpr double c[] = {2.0 / 3,  2.0 / 5,  2.0 / 7,  2.0 / 9,  2.0 / 11, 2.0 / 13,
                                 2.0 / 15, 2.0 / 17, 2.0 / 19, 2.0 / 21, 2.0 / 23};
  const double s = f / (2.0 + f);
  const double z = s * s;
  const double r = z * horner(c, z);
  const double half_square = 0.5 * f * f;
  return {f, half_square - s * (half_square + r)};
}

// x = quadrant pi/2 + r, |r| <= pi/4 (a little more after rounding); r + r_low is the remainder.
struct Reduced {
  int64_t quadrant;
  double r, r_low;
};
Reduced reduce(double x) {
  MUSTER_CHECK(std::fabs(x) <= 0x1p30, x, "strict::sin and cos take |x| <= 2^30");
  const double n = (x * kTwoOverPi + kRoundMagic) - kRoundMagic;
  const double a = std::fma(-n, kHalfPiHigh, x);  // exact
  const double r = std::fma(-n, kHalfPiLow, a);
  const double lost = std::fma(-n, kHalfPiLow, a - r);
  return {static_cast<int64_t>(n), r, std::fma(-n, kHalfPiTail, lost)};
}

double sin_small(double r, double r_low) {
  static constexpr double c[] = {
      -1.0 / 6,        1.0 / 120,        -1.0 / 5040,          1.0 / 362880,
      -1.0 / 39916800, 1.0 / 6227020800, -1.0 / 1307674368000, 1.0 / 355687428096000};
  const double z = r * r;
  return r + std::fma(r * z, horner(c, z), r_low);
}

double cos_small(double r, double r_low) {
  static constexpr double c[] = {
      1.0 / 24,        -1.0 / 720,         1.0 / 40320,          -1.0 / 3628800,
      1.0 / 479001600, -1.0 / 87178291200, 1.0 / 20922789888000, -1.0 / 6402373705728000};
  const double z = r * r;
  const double half = 0.5 * z;
  const double w = 1.0 - half;
  return w + (((1.0 - w) - half) + std::fma(z * z, horner(c, z), -r * r_low));
}

}  // namespace

double exp(double x) {
  if (std::isnan(x)) return x;
  if (x > 0x1.62e42fefa39efp+9) return kInf;
  if (x < -746.0) return 0;
  const double n = (x * kInvLn2 + kRoundMagic) - kRoundMagic;
  const double r = std::fma(-n, kLn2Low, std::fma(-n, kLn2High, x));
  const double value = 1.0 + expm1_small(r);
  const int k = static_cast<int>(n);
  const int half = k / 2;  // in two steps, so that results near both ends scale without overflow
  return value * pow2(half) * pow2(k - half);
}

double log(double x) {
  if (std::isnan(x) || x == kInf) return x;
  if (x < 0) return kNan;
  if (x == 0) return -kInf;
  int exponent = 0;
  if (x < std::numeric_limits<double>::min()) {
    x *= 0x1p54;
    exponent = -54;
  }
  const uint64_t bits = std::bit_cast<uint64_t>(x);
  // The exponent is taken so that the rest lies in [1/sqrt(2), sqrt(2)).
  const uint64_t above = bits - std::bit_cast<uint64_t>(0x1.6a09e667f3bcdp-1);
  const int64_t shift = static_cast<int64_t>(above) >> 52;
  exponent += static_cast<int>(shift);
  const double rest = std::bit_cast<double>(bits - (static_cast<uint64_t>(shift) << 52));
  const LogParts p = log_small(rest - 1.0);
  if (exponent == 0) return p.f - p.correction;
  const double e = exponent;
  const double high = std::fma(e, kLn2High, p.f);
  const double low = std::fma(e, kLn2High, -high) + p.f;
  return high + (low + std::fma(e, kLn2Low, -p.correction));
}

double log1p(double x) {
  const double u = 1.0 + x;
  if (!(u > 0) || u == kInf || u == 1.0) return u == 1.0 ? x : log(u);
  return log(u) + (x - (u - 1.0)) / u;  // the rounding error of 1 + x, to first order
}

double sin(double x) {
  if (!std::isfinite(x)) return kNan;
  const Reduced a = reduce(x);
  const double value =
      a.quadrant & 1 ? cos_small(a.r, a.r_low) : (x == 0 ? x : sin_small(a.r, a.r_low));
  return a.quadrant & 2 ? -value : value;
}

double cos(double x) {
  if (!std::isfinite(x)) return kNan;
  const Reduced a = reduce(x);
  const double value = a.quadrant & 1 ? sin_small(a.r, a.r_low) : cos_small(a.r, a.r_low);
  return (a.quadrant + 1) & 2 ? -value : value;
}

double pow(double x, double y) {
  if (y == 0 || x == 1) return 1;
  MUSTER_CHECK(!(x < 0), x, y, "strict::pow takes x >= 0");
  if (x == 0) return y > 0 ? 0 : kInf;
  return exp(y * log(x));
}

double pow_int(double x, int64_t n) {
  MUSTER_CHECK(n >= 0, n);
  double result = 1;
  for (double square = x; n > 0; n >>= 1, square *= square) {
    if (n & 1) result *= square;
  }
  return result;
}

double normal(uint64_t key, uint64_t counter_low, uint64_t counter_high) {
  const PhiloxBlock b = philox(key, counter_low, counter_high);
  const double u = 1.0 - unit_double(uint64_t{b[0]} | uint64_t{b[1]} << 32);  // (0, 1]
  const double v = unit_double(uint64_t{b[2]} | uint64_t{b[3]} << 32);
  return std::sqrt(-2.0 * log(u)) * cos(2.0 * kPi * v);
}

}  // namespace muster::strict
