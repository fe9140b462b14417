#include "train/ops/exec.h"

#include <gtest/gtest.h>

#include "train/ops/fma_peak.h"
#include "train/ops/ops_fixture.h"

namespace muster::ops {
namespace {

TEST(Isa, NamesAreReadAndCheckedAgainstTheMachine) {
  EXPECT_EQ(*isa_from("", Isa::avx2), Isa::avx2);
  EXPECT_EQ(*isa_from("scalar", Isa::avx512), Isa::scalar);
  EXPECT_EQ(*isa_from("avx512", Isa::avx512), Isa::avx512);
  EXPECT_EQ(isa_from("avx512", Isa::avx2).error().code(), Code::unsupported);
  const auto unknown = isa_from("sse9", Isa::avx2);
  EXPECT_EQ(unknown.error().code(), Code::invalid_argument);
  EXPECT_NE(unknown.error().message().find("scalar, avx2 or avx512"), std::string::npos);
}

TEST(FmaPeak, ChainsOfEveryInstructionSetAgree) {
  const float want = fma_chains_scalar(7);
  EXPECT_GT(want, 0);
  for (Isa isa : isas()) {
    EXPECT_GT(measure_fma_peak(isa), 1e7) << isa_name(isa);
  }
  // 12 chains of 7 rounds; AVX2 runs 6 chains of 14, so its sum is another number, but repeatable.
  if (best_isa() == Isa::avx512) {
    EXPECT_EQ(fma_chains_avx512(7), want);
  }
  if (best_isa() >= Isa::avx2) {
    EXPECT_EQ(fma_chains_avx2(7), fma_chains_avx2(7));
  }
}

}  // namespace
}  // namespace muster::ops
