#include "sys/arena.h"

#include <gtest/gtest.h>

#include <cstring>
#include <utility>

namespace muster {
namespace {

TEST(Arena, HandsOutAlignedMemoryAndTakesItBack) {
  Arena arena = *Arena::make(1 << 20, true);
  EXPECT_EQ(arena.capacity(), size_t{2} << 20) << "rounded up to a huge page";
  void* first = arena.take(100);
  void* second = arena.take(1);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(first) % 64, 0u);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(second) % 64, 0u);
  EXPECT_EQ(arena.used(), 192u);
  {
    Arena::Scope scope(arena);
    std::memset(arena.take_array<float>(1000), 1, 4000);
    EXPECT_GT(arena.used(), 4000u);
  }
  EXPECT_EQ(arena.used(), 192u);
  EXPECT_GT(arena.peak(), 4000u);
  arena.release_to(0);
  EXPECT_EQ(arena.take(1), first) << "the same memory is handed out again";
}

TEST(Arena, ItsWholeCapacityCanBeTakenAndWritten) {
  Arena arena = *Arena::make((size_t{4} << 20) + 1, false);
  EXPECT_EQ(arena.capacity(), size_t{6} << 20);
  std::memset(arena.take(arena.capacity()), 0xff, arena.capacity());
  EXPECT_EQ(arena.take(0), arena.take(0)) << "nothing is always left";
}

TEST(Arena, MovesWithItsMemory) {
  Arena a = *Arena::make(1, false);
  char* text = static_cast<char*>(a.take(6));
  std::strcpy(text, "muster");
  Arena b = std::move(a);
  EXPECT_EQ(b.used(), 64u);
  EXPECT_STREQ(text, "muster");
  b = *Arena::make(1, false);
  EXPECT_EQ(b.used(), 0u);
}

TEST(Arena, AnImpossibleSizeIsAnErrorThatNamesIt) {
  const auto refused = Arena::make(size_t{1} << 60, false);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code(), Code::no_space);
  EXPECT_NE(refused.error().message().find("1152921504606846976"), std::string::npos);
}

TEST(ArenaDeathTest, RunningOutIsABug) {
  Arena arena = *Arena::make(1, false);
  EXPECT_DEATH(arena.take(arena.capacity() + 1), "capacity");
  arena.take(arena.capacity());
  EXPECT_DEATH(arena.take(1), "capacity");
}

}  // namespace
}  // namespace muster
