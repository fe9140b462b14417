#include <gtest/gtest.h>

#include "train/ops/gemm_chooser.h"
#include "train/ops/ops_fixture.h"
#include "train/vendor/vendor_gemm.h"

namespace muster {
namespace {

using ops::Trans;

TEST(VendorGemm, AgreesWithOurOwnInEveryOrientation) {
  const ops::VendorGemm vendor = vendor_gemm();
  if (vendor == nullptr) GTEST_SKIP() << "this libtorch exports no sgemm_";
  set_vendor_threads(1);
  ops::Bench bench(1, ops::best_isa());
  const int64_t M = 33, N = 47, K = 129, ldc = 50;
  for (bool ta : {false, true}) {
    for (bool tb : {false, true}) {
      for (float beta : {0.0f, 1.0f}) {
        const int64_t lda = (ta ? M : K) + 3, ldb = (tb ? K : N) + 2;
        const auto a = ops::numbers<float>(lda * (ta ? K : M), 1);
        const auto b = ops::numbers<float>(ldb * (tb ? N : K), 2);
        auto own = ops::numbers<float>(ldc * M, 3), theirs = own;
        ops::gemm<float>(bench.exec, ta ? Trans::yes : Trans::no, tb ? Trans::yes : Trans::no, M, N,
                         K, a.data(), lda, b.data(), ldb, beta, own.data(), ldc);
        vendor(ta, tb, M, N, K, a.data(), lda, b.data(), ldb, beta, theirs.data(), ldc);
        for (size_t i = 0; i < own.size(); ++i) ASSERT_NEAR(own[i], theirs[i], 3e-5) << i;
      }
    }
  }
}

TEST(VendorGemm, FastModeAddsTheBiasWhoeverMultiplies) {
  const ops::VendorGemm vendor = vendor_gemm();
  if (vendor == nullptr) GTEST_SKIP() << "this libtorch exports no sgemm_";
  set_vendor_threads(1);
  RealClock clock;
  ops::GemmChooser chooser(clock);
  ops::Bench bench(1, ops::best_isa());
  const auto a = ops::numbers<float>(20 * 30, 1), b = ops::numbers<float>(40 * 30, 2),
             bias = ops::numbers<float>(40, 3);
  std::vector<float> strict(20 * 40), fast(20 * 40);
  const auto run = [&](std::vector<float>& c) {
    ops::gemm<float>(bench.exec, Trans::no, Trans::yes, 20, 40, 30, a.data(), 30, b.data(), 30,
                     0.0f, c.data(), 40, bias.data());
  };
  run(strict);
  bench.exec.mode = ops::Mode::fast;
  bench.exec.vendor = vendor;
  bench.exec.chooser = &chooser;
  for (ops::GemmChoice choice : {ops::GemmChoice::own, ops::GemmChoice::vendor}) {
    chooser.set({false, true, false, 20, 40, 30}, choice);
    run(fast);
    for (size_t i = 0; i < fast.size(); ++i) ASSERT_NEAR(fast[i], strict[i], 1e-5) << i;
  }
}

TEST(VendorVersion, NamesPyTorch) {
  EXPECT_EQ(vendor_version().rfind("PyTorch 2.", 0), 0u) << vendor_version();
}

}  // namespace
}  // namespace muster
