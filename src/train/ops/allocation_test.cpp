// No kernel allocates: operator new is counted while a whole step's worth of kernels runs.
#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <new>

#include "train/ops/ops_fixture.h"

namespace {
std::atomic<bool> counting{false};
std::atomic<int64_t> allocations{0};
}  // namespace

// Sanitizers bring their own operator new; there this file only runs the kernels.
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
void* operator new(size_t bytes) {
  if (counting.load(std::memory_order_relaxed)) ++allocations;
  if (void* p = std::malloc(bytes)) return p;
  std::abort();
}
void operator delete(void* p) noexcept {
  std::free(p);
}
void operator delete(void* p, size_t) noexcept {
  std::free(p);
}
#endif

namespace muster::ops {
namespace {

TEST(Kernels, NothingIsAllocated) {
  const int64_t t = 130, d = 32, H = 2, G = 1, c = 16, F = 40, V = 70;
  for (int threads : {1, 2}) {
    Bench bench(threads, best_isa());
    Exec& e = bench.exec;
    bench.team.run([](int) {});  // the team's threads are made on its first run
    auto x = numbers<float>(4 * t * V, 1), y = x, z = x, w = x, r = x, l = x;
    std::vector<int32_t> ids(static_cast<size_t>(t), 3), segments = {0, 50, 130};
    const AdamWStep step{1e-3, 0.9, 0.95, 1e-8, 0.1, 0.1, 0.05, 1};
    allocations = 0;
    counting = true;
    gemm<float>(e, Trans::no, Trans::yes, t, F, d, x.data(), d, y.data(), d, 0.0f, z.data(), F,
                w.data());
    rms_norm_forward<float>(e, t, d, x.data(), y.data(), w.data(), 1e-5f, z.data(), y.data(),
                            r.data());
    rms_norm_backward<float>(e, t, d, x.data(), z.data(), r.data(), w.data(), nullptr, y.data(),
                             l.data(), 0.0f);
    layer_norm_forward<float>(e, t, d, x.data(), nullptr, w.data(), w.data(), 1e-5f, nullptr,
                              y.data(), l.data(), r.data());
    layer_norm_backward<float>(e, t, d, x.data(), z.data(), l.data(), r.data(), w.data(), nullptr,
                               y.data(), l.data() + t, l.data() + 2 * t, 0.0f);
    rope_split_forward<float>(e, t, H, G, c, x.data(), ids.data(), w.data(), y.data(), z.data(),
                              l.data());
    attention_forward<float>(e, segments, t, H, G, c, 0.25f, y.data(), z.data(), l.data(), x.data(),
                             r.data());
    attention_backward<float>(e, segments, t, H, G, c, 0.25f, y.data(), z.data(), l.data(),
                              x.data(), r.data(), w.data(), x.data() + t * d, z.data() + t * d,
                              l.data() + t * d);
    attention_decode<float>(e, 100, t, H, G, c, 0.25f, y.data(), z.data(), l.data(), x.data());
    rope_split_backward<float>(e, t, H, G, c, y.data(), z.data(), l.data(), ids.data(), w.data(),
                               x.data());
    swiglu_forward<float>(e, t, F, x.data(), y.data());
    swiglu_backward<float>(e, t, F, x.data(), y.data(), x.data());
    gelu_forward<float>(e, t, F, x.data(), y.data());
    gelu_backward<float>(e, t, F, x.data(), y.data(), x.data());
    embedding_forward<float>(e, t, d, ids.data(), w.data(), ids.data(), z.data(), y.data());
    embedding_backward<float>(e, t, d, V, ids.data(), y.data(), 0.0f, w.data());
    softmax_cross_entropy<float>(e, t, V, V, x.data(), ids.data(), 1.0f, r.data());
    bias_backward<float>(e, t, d, y.data(), 0.0f, w.data());
    add_in_place<float>(e, t * d, y.data(), w.data());
    adamw<float>(e, t * d, step, y.data(), w.data(), z.data(), l.data());
    const double squares = sum_of_squares<float>(e, t * d, y.data());
    counting = false;
    EXPECT_GT(squares, 0);
    EXPECT_EQ(allocations, 0) << threads << " threads";
    EXPECT_EQ(bench.arena.used(), 0u);
  }
}

}  // namespace
}  // namespace muster::ops
