#include "train/ops/gemm_chooser.h"

#include <gtest/gtest.h>

#include "base/clock.h"
#include "train/ops/ops_fixture.h"

namespace muster::ops {
namespace {

using std::chrono::microseconds;

constexpr GemmShape kShape{false, true, false, 20, 30, 40};

TEST(GemmChooser, KeepsTheOneWhoseBestTimeIsSmaller) {
  const struct {
    const char* name;
    std::vector<int> own, vendor;  // microseconds of the warm-up and the three timed calls
    GemmChoice want;
  } cases[] = {
      {"the vendor is faster", {9, 9, 9, 9}, {8, 8, 8, 8}, GemmChoice::vendor},
      {"own is faster", {7, 7, 7, 7}, {8, 8, 8, 8}, GemmChoice::own},
      {"a tie goes to own, which has strict bits", {8, 8, 8, 8}, {8, 8, 8, 8}, GemmChoice::own},
      {"slow calls do not decide", {7, 99, 99, 7}, {8, 8, 8, 8}, GemmChoice::own},
      {"the first call is not counted", {99, 7, 7, 7}, {8, 8, 8, 8}, GemmChoice::own},
  };
  for (const auto& c : cases) {
    SCOPED_TRACE(c.name);
    SimClock clock;
    GemmChooser chooser(clock);
    size_t own_calls = 0, vendor_calls = 0;
    EXPECT_EQ(chooser.measure(
                  kShape, [&] { clock.advance(microseconds(c.own[own_calls++])); },
                  [&] { clock.advance(microseconds(c.vendor[vendor_calls++])); }),
              c.want);
    EXPECT_EQ(own_calls, c.own.size());
    EXPECT_EQ(vendor_calls, c.vendor.size());
    ASSERT_NE(chooser.find(kShape), nullptr);
    EXPECT_EQ(*chooser.find(kShape), c.want);
  }
}

TEST(GemmChooser, ChoicesSurviveAsText) {
  SimClock clock;
  GemmChooser chooser(clock);
  chooser.set({true, false, true, 3, 2, 1}, GemmChoice::vendor);
  chooser.set(kShape, GemmChoice::own);
  EXPECT_EQ(chooser.to_text(), "NT 20 30 40 0 own\nTN 3 2 1 1 vendor\n");
  GemmChooser other(clock);
  ASSERT_TRUE(other.restore(chooser.to_text()).ok());
  EXPECT_EQ(other.to_text(), chooser.to_text());
  ASSERT_TRUE(other.restore("NT 20 30 40 0 vendor\nNN 1 1 1 0 own\n").ok());
  EXPECT_EQ(other.to_text(), "NN 1 1 1 0 own\nNT 20 30 40 0 vendor\nTN 3 2 1 1 vendor\n");
}

TEST(GemmChooser, ARecordThatIsNotOneIsRefusedWhole) {
  SimClock clock;
  GemmChooser chooser(clock);
  chooser.set(kShape, GemmChoice::own);
  for (const char* bad :
       {"NT 20 30 40 0", "NT 20 30 40 0 mine", "XT 20 30 40 0 own", "NT 20 -3 40 0 own",
        "NT 20 30 40 2 own", "NT 20 30 4x 0 own", "N 20 30 40 0 own", "NT 1 1 1 0 own\nrubbish"}) {
    const Status status = chooser.restore(bad);
    ASSERT_FALSE(status.ok()) << bad;
    EXPECT_EQ(status.error().code(), Code::invalid_argument);
    EXPECT_NE(status.error().message().find("delete the record"), std::string::npos);
    EXPECT_EQ(chooser.size(), 1u) << "what was there stays";
  }
}

// A stand-in for the vendor's routine, so that it can be told who multiplied: it writes 42.
int vendor_calls = 0;
void recognisable(bool, bool, int64_t M, int64_t N, int64_t, const float*, int64_t, const float*,
                  int64_t, float, float* C, int64_t ldc) {
  ++vendor_calls;
  for (int64_t m = 0; m < M; ++m) {
    for (int64_t n = 0; n < N; ++n) C[m * ldc + n] = 42;
  }
}

class FastMode : public testing::Test {
 protected:
  FastMode() {
    vendor_calls = 0;
    bench_.exec.vendor = recognisable;
    bench_.exec.chooser = &chooser_;
    bench_.exec.mode = Mode::fast;
  }
  float product(float beta) {
    const float a = 2, b = 3;
    float c = 1;
    gemm<float>(bench_.exec, Trans::no, Trans::no, 1, 1, 1, &a, 1, &b, 1, beta, &c, 1);
    return c;
  }
  SimClock clock_;
  GemmChooser chooser_{clock_};
  Bench bench_{1, best_isa()};
};

TEST_F(FastMode, ARecordedChoiceIsFollowedWithoutMeasuring) {
  chooser_.set({false, false, false, 1, 1, 1}, GemmChoice::vendor);
  EXPECT_EQ(product(0), 42);
  EXPECT_EQ(vendor_calls, 1);
  chooser_.set({false, false, false, 1, 1, 1}, GemmChoice::own);
  EXPECT_EQ(product(0), 6);
  EXPECT_EQ(vendor_calls, 1);
}

TEST_F(FastMode, ANewShapeIsMeasuredOnceAndTheAccumulatorSurvivesIt) {
  EXPECT_EQ(product(1), 7) << "a tie on a clock that stands still: own";
  EXPECT_GT(vendor_calls, 0);
  const int measured = vendor_calls;
  EXPECT_EQ(product(1), 7);
  EXPECT_EQ(vendor_calls, measured);
  EXPECT_EQ(chooser_.to_text(), "NN 1 1 1 1 own\n");
}

TEST_F(FastMode, StrictModeNeverCallsTheVendor) {
  chooser_.set({false, false, false, 1, 1, 1}, GemmChoice::vendor);
  bench_.exec.mode = Mode::strict;
  EXPECT_EQ(product(0), 6);
  EXPECT_EQ(vendor_calls, 0);
}

}  // namespace
}  // namespace muster::ops
