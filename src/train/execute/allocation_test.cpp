// A step allocates nothing: operator new is counted in this program.
#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <new>

#include "train/execute/step_rig.h"

namespace {
std::atomic<int64_t> allocations{0};

void* counted(size_t bytes) {
  allocations.fetch_add(1, std::memory_order_relaxed);
  if (void* p = std::malloc(bytes > 0 ? bytes : 1)) return p;
  throw std::bad_alloc();
}
}  // namespace

void* operator new(size_t bytes) {
  return counted(bytes);
}
void* operator new[](size_t bytes) {
  return counted(bytes);
}
// std::stable_sort takes its buffer by this one and gives it back by the plain delete.
void* operator new(size_t bytes, const std::nothrow_t&) noexcept {
  allocations.fetch_add(1, std::memory_order_relaxed);
  return std::malloc(bytes > 0 ? bytes : 1);
}
void operator delete(void* p) noexcept {
  std::free(p);
}
void operator delete(void* p, const std::nothrow_t&) noexcept {
  std::free(p);
}
void operator delete[](void* p) noexcept {
  std::free(p);
}
void operator delete(void* p, size_t) noexcept {
  std::free(p);
}
void operator delete[](void* p, size_t) noexcept {
  std::free(p);
}

namespace muster {
namespace {

using namespace step_rig;  // NOLINT: the vocabulary of these tests

// The count is of the whole process, so ranks meet at barriers around the steps that are counted.
void expect_no_allocation(const Case& c) {
  on_ranks(c.world, group_options(), [&](Communicator& group) {
    auto worker = Worker<float>::make(c, group);
    const std::vector<Batch> batches = worker->batches(1);
    std::vector<BatchView> views;
    for (const Batch& b : batches) views.push_back(b.view());
    const auto run = [&](int64_t step) {
      return worker->executor->run({step, views, rate(step), step - 1}).ok();
    };
    bool ok = run(1) && run(2);
    ok = ok && group.barrier().wait().ok() && group.barrier().wait().ok();
    const int64_t before = allocations.load();
    ok = ok && run(3) && run(4);
    const int64_t after = allocations.load();
    ok = ok && group.barrier().wait().ok();
    EXPECT_TRUE(ok);
    EXPECT_EQ(after - before, 0);
  });
}

TEST(Allocation, AStepAllocatesNothing) {
  expect_no_allocation(Case{});
}
TEST(Allocation, AStepOfTwoRanksAllocatesNothing) {
  Case c;
  c.world = 2;
  expect_no_allocation(c);
}
TEST(Allocation, AStepOfTwoThreadsAllocatesNothing) {
  Case c;
  c.threads = 2;
  expect_no_allocation(c);
}

}  // namespace
}  // namespace muster
