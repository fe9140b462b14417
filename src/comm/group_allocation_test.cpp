// Steady state allocates nothing: counted by replacing operator new in this test binary.
#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <new>

#include "comm/group_test_world.h"

namespace {
std::atomic<int64_t> allocations = 0;
}

// Not inlined: the compiler would take malloc and operator delete for a mismatched pair.
[[gnu::noinline]] void* operator new(size_t bytes) {
  ++allocations;
  void* memory = std::malloc(bytes > 0 ? bytes : 1);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}
[[gnu::noinline]] void operator delete(void* memory) noexcept {
  std::free(memory);
}
[[gnu::noinline]] void operator delete(void* memory, size_t) noexcept {
  std::free(memory);
}

namespace muster {
namespace {

TEST(GroupAllocation, SteadyStateAllocatesNothing) {
  for (const Backend backend : {Backend::shm, Backend::shm_staged, Backend::tcp})
    for (const Progress progress : {Progress::caller, Progress::thread}) {
      GroupOptions options;
      options.progress = progress;
      std::atomic<int64_t> during = -1;
      RankThreads(backend, 2, options).run([&](Communicator& group) {
        Buffers buffers(group, backend);
        const auto parts = make_parts<float>(buffers, group, 6, 1000);
        const auto sources = pointers(parts);
        const std::span<float> out = buffers.make<float>(1000);
        const std::vector<int64_t> bounds = even_bounds(1000, 2, 16);
        const auto r = static_cast<size_t>(group.rank().value);
        const auto slice = out.subspan(static_cast<size_t>(bounds[r]),
                                       static_cast<size_t>(bounds[r + 1] - bounds[r]));
        double loss = 1;
        const auto step = [&] {
          Work a = group.reduce_scatter_tree<float>(sources, 6, bounds, slice);
          Work b = group.all_gather<float>(slice, bounds, out);
          Work c = group.all_reduce(std::span(&loss, 1), ReduceOp::sum);
          ASSERT_TRUE(a.wait() && b.wait() && c.wait());
          ASSERT_TRUE(group.all_reduce_tree<float>(sources, 6, out).wait());
        };
        for (int i = 0; i < 40; ++i) step();  // every slot of the queue has been used
        ASSERT_TRUE(group.barrier().wait());
        const int64_t before = allocations;
        ASSERT_TRUE(group.barrier().wait());
        for (int i = 0; i < 100; ++i) step();
        ASSERT_TRUE(group.barrier().wait());
        if (group.rank().value == 0) during = allocations - before;
        ASSERT_TRUE(group.barrier().wait());
      });
      EXPECT_EQ(during, 0) << backend_name(backend)
                           << (progress == Progress::thread ? " thread" : "");
    }
}

}  // namespace
}  // namespace muster
