#include "net/reactor.h"

#include <gtest/gtest.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <string>
#include <thread>

namespace muster {
namespace {

using namespace std::chrono_literals;

struct Pipe {
  OwnedFd out, in;
  Pipe() {
    int fds[2];
    MUSTER_CHECK(::pipe(fds) == 0);
    out.reset(fds[0]);
    in.reset(fds[1]);
  }
  void put(char c) { MUSTER_CHECK(::write(in.get(), &c, 1) == 1); }
  char take() {
    char c = 0;
    MUSTER_CHECK(::read(out.get(), &c, 1) == 1);
    return c;
  }
};

struct ReactorTest : testing::Test {
  SimClock clock;
  std::unique_ptr<Reactor> reactor = std::move(Reactor::make(clock)).value();
  std::string heard;
};

TEST_F(ReactorTest, AReadableDescriptorIsReportedUntilItIsRead) {
  Pipe pipe;
  ASSERT_TRUE(reactor->watch(pipe.out.get(), {.read = true}, [&](Readiness r) {
    EXPECT_TRUE(r.read);
    heard += 'r';
  }));
  EXPECT_EQ(*reactor->run_once(0ms), 0);
  pipe.put('a');
  EXPECT_EQ(*reactor->run_once(1s), 1);
  EXPECT_EQ(*reactor->run_once(1s), 1);
  pipe.take();
  EXPECT_EQ(*reactor->run_once(0ms), 0);
  EXPECT_EQ(heard, "rr");
}

TEST_F(ReactorTest, TheLastWriterClosingIsAHangup) {
  Pipe pipe;
  bool hangup = false;
  ASSERT_TRUE(
      reactor->watch(pipe.out.get(), {.read = true}, [&](Readiness r) { hangup = r.hangup; }));
  pipe.in.reset();
  EXPECT_EQ(*reactor->run_once(1s), 1);
  EXPECT_TRUE(hangup);
}

TEST_F(ReactorTest, AHandlerMayUnwatchItselfAndOthersThatAreReadyInTheSameRound) {
  Pipe a, b;
  const auto end_both = [&](Readiness) {
    heard += 'x';
    reactor->unwatch(a.out.get());
    reactor->unwatch(b.out.get());
  };
  ASSERT_TRUE(reactor->watch(a.out.get(), {.read = true}, end_both));
  ASSERT_TRUE(reactor->watch(b.out.get(), {.read = true}, end_both));
  a.put('1');
  b.put('2');
  EXPECT_EQ(*reactor->run_once(1s), 1);
  EXPECT_EQ(heard, "x");
  EXPECT_FALSE(reactor->watched(a.out.get()));
}

TEST_F(ReactorTest, ChangedInterestTakesEffect) {
  const OwnedFd fd(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC));  // always writable
  int writes = 0;
  ASSERT_TRUE(reactor->watch(fd.get(), {.read = true}, [&](Readiness r) { writes += r.write; }));
  EXPECT_EQ(*reactor->run_once(0ms), 0);
  ASSERT_TRUE(reactor->change(fd.get(), {.read = true, .write = true}));
  EXPECT_EQ(*reactor->run_once(1s), 1);
  EXPECT_EQ(writes, 1);
}

TEST_F(ReactorTest, WhatCannotBeWatchedIsAnError) {
  Pipe pipe;
  ASSERT_TRUE(reactor->watch(pipe.out.get(), {.read = true}, [](Readiness) {}));
  EXPECT_EQ(reactor->watch(pipe.out.get(), {.read = true}, [](Readiness) {}).error().code(),
            Code::already_exists);
  FILE* file = std::tmpfile();
  ASSERT_NE(file, nullptr);
  EXPECT_EQ(reactor->watch(fileno(file), {.read = true}, [](Readiness) {}).error().code(),
            Code::unsupported);
  std::fclose(file);
}

TEST_F(ReactorTest, TimersRunInOrderOfDeadlineAndNeverEarly) {
  reactor->at(20ms, [&] { heard += 'c'; });
  reactor->at(10ms, [&] { heard += 'a'; });
  reactor->at(10ms, [&] { heard += 'b'; });
  clock.advance(10ms - 1ns);
  EXPECT_EQ(*reactor->run_once(0ms), 0);
  clock.advance(1ns);
  EXPECT_EQ(*reactor->run_once(0ms), 2);
  EXPECT_EQ(heard, "ab");
  clock.advance(10ms);
  EXPECT_EQ(*reactor->run_once(0ms), 1);
  EXPECT_EQ(heard, "abc");
}

TEST_F(ReactorTest, ATimerMayCancelAnotherAndSetAnAlreadyDueOneForTheNextRound) {
  Reactor::TimerId second = 0;
  reactor->at(1ms, [&] {
    heard += '1';
    reactor->cancel(second);
    reactor->after(0ms, [&] { heard += '3'; });
  });
  second = reactor->at(2ms, [&] { heard += '2'; });
  clock.advance(5ms);
  EXPECT_EQ(*reactor->run_once(0ms), 1);
  EXPECT_EQ(*reactor->run_once(0ms), 1);
  EXPECT_EQ(heard, "13");
  reactor->cancel(second);  // gone already: ignored
}

TEST_F(ReactorTest, PostedTasksRunOnTheLoopAndWakeIt) {
  const std::thread::id loop = std::this_thread::get_id();
  bool ran = false;
  std::thread other([&] {
    reactor->post([&] {
      EXPECT_EQ(std::this_thread::get_id(), loop);
      ran = true;
    });
  });
  ASSERT_TRUE(reactor->run_until([&] { return ran; }));
  other.join();
}

TEST_F(ReactorTest, WakeEndsTheWait) {
  std::thread other([&] { reactor->wake(); });
  EXPECT_EQ(*reactor->run_once(1h), 0);
  other.join();
}

TEST(ReactorRealTime, RunOnceWaitsForTheNextTimer) {
  RealClock clock;
  auto reactor = std::move(Reactor::make(clock)).value();
  bool ran = false;
  const Nanos due = clock.now() + 2ms;
  reactor->at(due, [&] { ran = true; });
  ASSERT_TRUE(reactor->run_until([&] { return ran; }));
  EXPECT_GE(clock.now(), due);
}

}  // namespace
}  // namespace muster
