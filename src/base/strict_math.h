// Strict mathematics: transcendental functions in double whose bits do not depend on the machine.
// libm chooses code by CPU features, so its results differ between machines; these use only IEEE
// operations (+, -, *, /, sqrt) and explicit fused multiply-add, which every implementation of
// std::fma rounds alike, in hardware or not. For everything that touches training state:
// initialisation, schedules, position tables, losses. Errors are stated in units in the last place
// (ulp) and tested against long double. Pure functions; safe from any thread.
#pragma once

#include <cstdint>

namespace muster::strict {

inline constexpr double kPi = 3.14159265358979323846;

double exp(double x);    // 1 ulp; +inf above 709.78, gradual underflow, 0 below -745.2
double log(double x);    // 1 ulp; -inf at 0, NaN below 0
double log1p(double x);  // 2 ulp
// 1 ulp for |x| <= 2^30 (checked): positions and angles, not arbitrary numbers. Infinite or NaN
// arguments give NaN.
double sin(double x);
double cos(double x);
// x >= 0. Error about (1 + |y log x|) ulp: made for decay rates and frequency bases.
double pow(double x, double y);
// x^n by repeated squaring, n >= 0.
double pow_int(double x, int64_t n);

// A standard normal number for (key, counter): Box and Muller's transform of one Philox block.
double normal(uint64_t key, uint64_t counter_low, uint64_t counter_high);

}  // namespace muster::strict
