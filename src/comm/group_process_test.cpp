// Ranks as processes: opening a group from what a launcher gives, and the death of a rank.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "comm/open_group.h"
#include "comm/shm_group.h"
#include "comm/tcp_group.h"
#include "net/reactor.h"
#include "net/real_transport.h"
#include "runtime/rendezvous/tcp_store_client.h"
#include "runtime/rendezvous/tcp_store_server.h"

namespace muster {
namespace {

using namespace std::chrono_literals;

// A child that ends with 0 if `body` returned an empty text, else prints it.
pid_t spawn(const std::function<std::string()>& body) {
  std::fflush(nullptr);
  const pid_t pid = ::fork();
  if (pid != 0) return pid;
  const std::string wrong = body();
  if (!wrong.empty()) std::fprintf(stderr, "child: %s\n", wrong.c_str());
  std::fflush(nullptr);
  ::_exit(wrong.empty() ? 0 : 1);
}

GroupOptions test_options() {
  GroupOptions options;
  options.timeout = 60s;
  options.shared_bytes = 16 << 20;
  return options;
}

// Opens the group of `environment`, adds ranks up on `backend`, and says what went wrong.
std::string sum_of_ranks(const Environment& environment, std::string_view backend) {
  RealClock clock;
  RealTransport transport(clock);
  RealRandom random;
  auto group = open_group(environment, transport, random, test_options());
  if (!group) return group.error().to_string();
  if ((*group)->backend() != backend) return "backend is " + std::string((*group)->backend());
  auto memory = (*group)->shared_alloc(800'000);
  if (!memory) return memory.error().to_string();
  const std::span<double> data(reinterpret_cast<double*>(memory->data()), 100'000);
  std::fill(data.begin(), data.end(), (*group)->rank().value + 1.0);
  const Status status = (*group)->all_reduce(data, ReduceOp::sum).wait();
  if (!status) return status.error().to_string();
  const int world = (*group)->world();
  for (const double x : data)
    if (x != world * (world + 1) / 2.0) return "wrong sum";
  return {};
}

Environment with_rank(Environment environment, int rank, int world) {
  environment["RANK"] = std::to_string(rank);
  environment["WORLD_SIZE"] = std::to_string(world);
  return environment;
}

// A launcher as torchrun is one: a store, and its address in the environment.
void expect_group_through_store(const char* forced, std::string_view backend) {
  RealClock clock;
  OwnedFd listener = listen_socket(Endpoint::tcp("127.0.0.1", 0), 64).value();
  const uint16_t port = local_endpoint(listener.get()).value().port;
  Environment environment = {{"MASTER_ADDR", "localhost"}, {"MASTER_PORT", std::to_string(port)}};
  if (forced) environment["MUSTER_COMM_BACKEND"] = forced;
  std::vector<pid_t> children;
  for (int r = 0; r < 3; ++r)
    children.push_back(spawn([&] { return sum_of_ranks(with_rank(environment, r, 3), backend); }));
  auto reactor = std::move(Reactor::make(clock)).value();
  auto server = std::move(TcpStoreServer::serve(*reactor, std::move(listener), nullptr)).value();
  size_t ended = 0;
  const Nanos give_up = clock.now() + 100s;
  while (ended < children.size() && clock.now() < give_up) {
    ASSERT_TRUE(reactor->run_once(5ms));
    int status = 0;
    while (::waitpid(-1, &status, WNOHANG) > 0) {
      EXPECT_EQ(status, 0);
      ++ended;
    }
  }
  EXPECT_EQ(ended, children.size());
}

TEST(OpenGroup, UnderAStoreRanksOfOneHostShareMemory) {
  expect_group_through_store(nullptr, "shm");
}

TEST(OpenGroup, OrUseTcpWhenTold) {
  expect_group_through_store("tcp", "tcp");
}

size_t open_descriptors() {
  size_t count = 0;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator("/proc/self/fd"))
    ++count;
  return count;
}

// The other rank says where it is, and then nothing.
TEST(OpenGroup, AMeetingThatFailsLeavesNoSocketOpen) {
  OwnedFd listener = listen_socket(Endpoint::tcp("127.0.0.1", 0), 64).value();
  const uint16_t port = local_endpoint(listener.get()).value().port;
  const pid_t launcher = spawn([&]() -> std::string {
    RealClock clock;
    auto reactor = std::move(Reactor::make(clock)).value();
    auto server = std::move(TcpStoreServer::serve(*reactor, std::move(listener), nullptr)).value();
    while (reactor->run_once(1s)) {
    }
    return "the reactor stopped";
  });
  listener.reset();
  const Environment environment = {{"MASTER_ADDR", "localhost"},
                                   {"MASTER_PORT", std::to_string(port)}};
  RealClock clock;
  RealTransport transport(clock);
  RealRandom random;
  auto store =
      std::move(TcpStoreClient::connect(transport, Endpoint::tcp("localhost", port), 60s)).value();
  ASSERT_TRUE(store->set("muster/comm/0/host/1", "another host"));
  GroupOptions options = test_options();
  options.timeout = 200ms;
  const size_t before = open_descriptors();
  const auto group = open_group(with_rank(environment, 0, 2), transport, random, options);
  ASSERT_FALSE(group);
  EXPECT_NE(group.error().to_string().find("address/1"), std::string::npos)
      << group.error().to_string();
  EXPECT_EQ(open_descriptors(), before);
  ::kill(launcher, SIGKILL);
  EXPECT_EQ(::waitpid(launcher, nullptr, 0), launcher);
}

// Forwards to the kernel's sockets; the `nth` wait fails.
class FailsToWait final : public Transport {
 public:
  FailsToWait(const Clock& clock, int nth) : real_(clock), left_(nth) {}
  Result<SocketId> listen(const Endpoint& at) override { return real_.listen(at); }
  Result<Endpoint> local(SocketId s) override { return real_.local(s); }
  Result<std::optional<SocketId>> accept(SocketId s) override { return real_.accept(s); }
  Result<SocketId> connect(const Endpoint& to) override { return real_.connect(to); }
  Status connected(SocketId s) override { return real_.connected(s); }
  Result<std::optional<size_t>> read(SocketId s, std::span<std::byte> out) override {
    return real_.read(s, out);
  }
  Result<std::optional<size_t>> write(SocketId s, std::span<const std::byte> data) override {
    return real_.write(s, data);
  }
  void shutdown(SocketId s) override { real_.shutdown(s); }
  void close(SocketId s) override { real_.close(s); }
  Result<int> wait(std::span<Poll> sockets, Nanos deadline) override {
    if (--left_ == 0) return Error(Code::io, "poll: no memory");
    return real_.wait(sockets, deadline);
  }
  const Clock& clock() const override { return real_.clock(); }

 private:
  RealTransport real_;
  int left_;
};

TEST(TcpGroup, AWaitThatFailsLeavesNoSocketOpen) {
  RealClock clock;
  // Rank 0's address: connections to it stand, but nobody answers.
  OwnedFd other = listen_socket(Endpoint::tcp("127.0.0.1", 0), 64).value();
  const Endpoint other_at = Endpoint::tcp("127.0.0.1", local_endpoint(other.get()).value().port);
  GroupOptions options = test_options();
  options.timeout = 100ms;
  const size_t before = open_descriptors();
  for (int nth = 1; nth <= 4; ++nth) {
    FailsToWait transport(clock, nth);
    const SocketId listener = transport.listen(Endpoint::tcp("127.0.0.1", 0)).value();
    const Endpoint mine = Endpoint::tcp("127.0.0.1", transport.local(listener).value().port);
    // Of three ranks, this one calls rank 0 and waits for rank 2.
    const auto group =
        join_tcp_group(transport, listener, {other_at, mine, other_at}, Rank{1}, 7, options);
    ASSERT_FALSE(group) << nth;
    EXPECT_EQ(open_descriptors(), before) << nth;
  }
}

TEST(OpenGroup, WithoutALauncherItIsAGroupOfOne) {
  EXPECT_EQ(sum_of_ranks({}, "shm"), "");
  EXPECT_EQ(sum_of_ranks({{"RANK", "0"}, {"WORLD_SIZE", "1"}}, "shm"), "");
}

TEST(OpenGroup, WhatIsWrongInTheEnvironmentIsNamed) {
  RealClock clock;
  RealTransport transport(clock);
  RealRandom random;
  const struct {
    Environment environment;
    const char* named;
  } cases[] = {
      {{{"WORLD_SIZE", "2"}}, "RANK"},
      {{{"WORLD_SIZE", "x"}, {"RANK", "0"}}, "WORLD_SIZE"},
      {{{"WORLD_SIZE", "2"}, {"RANK", "2"}}, "RANK"},
      {{{"WORLD_SIZE", "2"}, {"RANK", "0"}}, "MASTER_ADDR"},
      {{{"WORLD_SIZE", "2"}, {"RANK", "0"}, {"MASTER_ADDR", "localhost"}}, "MASTER_PORT"},
      {{{"MUSTER_COMM_BACKEND", "pigeon"}}, "MUSTER_COMM_BACKEND"},
  };
  for (const auto& c : cases) {
    const auto group = open_group(c.environment, transport, random, test_options());
    ASSERT_FALSE(group) << c.named;
    EXPECT_NE(group.error().to_string().find(c.named), std::string::npos)
        << group.error().to_string();
  }
}

TEST(ShmGroup, ASegmentServesOneAttemptOnce) {
  RealClock clock;
  auto segment = ShmSegment::create(1, test_options()).value();
  ASSERT_TRUE(join_shm_group(clock, segment, Rank{0}, test_options()));
  const auto again = join_shm_group(clock, segment, Rank{0}, test_options());
  ASSERT_FALSE(again);
  EXPECT_EQ(again.error().code(), Code::already_exists);
}

TEST(ShmGroup, RanksWithOtherOptionsAreRefused) {
  auto segment = ShmSegment::create(2, test_options()).value();
  GroupOptions other = test_options();
  other.staging_bytes *= 2;
  OwnedFd copy(::fcntl(segment->fd(), F_DUPFD_CLOEXEC, 3));
  EXPECT_EQ(ShmSegment::map(std::move(copy), 2, other).error().code(), Code::invalid_argument);
}

TEST(ShmGroup, ARankThatNeverComesIsNamed) {
  RealClock clock;
  GroupOptions options = test_options();
  options.timeout = 20ms;
  auto segment = ShmSegment::create(3, options).value();
  const auto group = join_shm_group(clock, segment, Rank{1}, options);
  ASSERT_FALSE(group);
  EXPECT_EQ(group.error().code(), Code::timeout);
  EXPECT_NE(group.error().message().find("[0,2]"), std::string::npos) << group.error().to_string();
}

TEST(ShmGroup, MoreSharedMemoryThanAgreedIsNoSpace) {
  RealClock clock;
  auto group = solo_group(clock, test_options()).value();
  EXPECT_EQ(group->shared_alloc(17 << 20).error().code(), Code::no_space);
  const auto memory = group->shared_alloc(5000);
  ASSERT_TRUE(memory);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(memory->data()) % 4096, 0u);
}

// One rank dies in the middle of a run; the other is told who.
void expect_death_is_named(const Environment& environment, Reactor& reactor) {
  const pid_t victim = spawn([&]() -> std::string {
    RealClock clock;
    RealTransport transport(clock);
    RealRandom random;
    auto group = open_group(with_rank(environment, 1, 2), transport, random, test_options());
    if (!group) return group.error().to_string();
    if (!(*group)->barrier().wait()) return "first barrier failed";
    ::raise(SIGKILL);
    return "alive";
  });
  const pid_t survivor = spawn([&]() -> std::string {
    RealClock clock;
    RealTransport transport(clock);
    RealRandom random;
    auto group = open_group(with_rank(environment, 0, 2), transport, random, test_options());
    if (!group) return group.error().to_string();
    Status status = (*group)->barrier().wait();
    if (status) status = (*group)->barrier().wait();
    if (status) return "no error after the other rank's death";
    if (status.error().code() != Code::peer_lost) return status.error().to_string();
    if ((*group)->missing() != RankSet{1}) return "blames " + (*group)->missing().to_string();
    return {};
  });
  for (int ended = 0; ended < 2;) {
    ASSERT_TRUE(reactor.run_once(5ms));
    int status = 0;
    const pid_t pid = ::waitpid(-1, &status, WNOHANG);
    EXPECT_TRUE(pid != survivor || status == 0) << status;
    EXPECT_TRUE(pid != victim || WIFSIGNALED(status)) << status;
    ended += pid > 0;
  }
}

void expect_death_is_named_on(const char* backend) {
  RealClock clock;
  OwnedFd listener = listen_socket(Endpoint::tcp("127.0.0.1", 0), 64).value();
  const uint16_t port = local_endpoint(listener.get()).value().port;
  auto reactor = std::move(Reactor::make(clock)).value();
  auto server = std::move(TcpStoreServer::serve(*reactor, std::move(listener), nullptr)).value();
  expect_death_is_named({{"MASTER_ADDR", "localhost"},
                         {"MASTER_PORT", std::to_string(port)},
                         {"MUSTER_COMM_BACKEND", backend}},
                        *reactor);
}

TEST(RankDeath, IsPeerLostInSharedMemoryWithoutAnybodysHelp) {
  expect_death_is_named_on("shm");
}

TEST(RankDeath, IsPeerLostOverTcp) {
  expect_death_is_named_on("tcp");
}

}  // namespace
}  // namespace muster
