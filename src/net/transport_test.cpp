// What every Transport does, asked of the real and of the simulated one; then the faults that only
// the simulated one can make.
#include "net/transport.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <memory>
#include <string>

#include "net/real_transport.h"
#include "net/sim_network.h"

namespace muster {
namespace {

using namespace std::chrono_literals;

std::span<const std::byte> bytes(std::string_view text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

// Blocking conveniences of one end.
struct End {
  Transport& transport;
  SocketId socket;

  void wait(bool read, bool write) {
    Transport::Poll poll{socket, read, write};
    ASSERT_TRUE(transport.wait({&poll, 1}, transport.clock().now() + 60s));
    ASSERT_TRUE(poll.readable || poll.writable) << "nothing happened in time";
  }
  // Reads `count` bytes or until the end.
  std::string take(size_t count) {
    std::string out;
    while (out.size() < count) {
      char buffer[4096];
      const auto n = transport.read(
          socket,
          std::as_writable_bytes(std::span(buffer, std::min(sizeof buffer, count - out.size()))));
      if (!n) return out + "<" + std::string(code_name(n.error().code())) + ">";
      if (!*n) {
        wait(true, false);
        continue;
      }
      if (**n == 0) return out + "<end>";
      out.append(buffer, **n);
    }
    return out;
  }
  void put(std::string_view text) {
    while (!text.empty()) {
      const auto n = transport.write(socket, bytes(text));
      ASSERT_TRUE(n) << n.error().to_string();
      if (!*n)
        wait(false, true);
      else
        text.remove_prefix(**n);
    }
  }
};

struct TransportTest : testing::TestWithParam<const char*> {
  RealClock real_clock;
  SimClock sim_clock;
  RealTransport real{real_clock};
  SimNetwork network{sim_clock, 1};
  std::string path;

  ~TransportTest() override {
    if (!path.empty()) ::unlink(path.c_str());
  }
  bool simulated() const { return std::string_view(GetParam()).starts_with("sim"); }
  Transport& transport() { return simulated() ? network.host("a") : static_cast<Transport&>(real); }
  Endpoint address() {
    if (std::string_view(GetParam()).ends_with("tcp")) return Endpoint::tcp("127.0.0.1", 0);
    path = testing::TempDir() + "muster_transport_" + std::to_string(::getpid());
    return Endpoint::unix_path(path);
  }
  std::pair<End, End> connected_pair() {
    Transport& t = transport();
    const SocketId listener = t.listen(address()).value();
    const SocketId client = t.connect(t.local(listener).value()).value();
    End(t, client).wait(false, true);
    EXPECT_TRUE(t.connected(client));
    End(t, listener).wait(true, false);
    const SocketId server = t.accept(listener).value().value();
    EXPECT_FALSE(t.accept(listener).value().has_value());
    t.close(listener);
    return {End(t, client), End(t, server)};
  }
};

TEST_P(TransportTest, CarriesBytesBothWays) {
  auto [client, server] = connected_pair();
  client.put("question");
  EXPECT_EQ(server.take(8), "question");
  server.put("answer");
  EXPECT_EQ(client.take(6), "answer");
}

TEST_P(TransportTest, AReadWithNothingThereAndAWriteIntoAFullPipeWouldBlock) {
  auto [client, server] = connected_pair();
  std::byte byte{};
  EXPECT_FALSE(client.transport.read(client.socket, {&byte, 1}).value().has_value());
  const std::string block(1 << 20, 'x');
  size_t written = 0;
  for (;;) {
    const auto n = client.transport.write(client.socket, bytes(block)).value();
    if (!n) break;
    written += *n;
  }
  EXPECT_EQ(server.take(written), std::string(written, 'x'));
  client.wait(false, true);
}

TEST_P(TransportTest, AfterShutdownThePeerReadsWhatWasSentThenTheEnd) {
  auto [client, server] = connected_pair();
  client.put("last words");
  client.transport.shutdown(client.socket);
  EXPECT_EQ(server.take(100), "last words<end>");
}

TEST_P(TransportTest, WritingToAClosedPeerIsPeerLost) {
  auto [client, server] = connected_pair();
  server.transport.close(server.socket);
  EXPECT_EQ(client.take(1), "<end>");
  for (int i = 0; i < 100; ++i) {  // the kernel takes some bytes before it hears of the close
    const auto n = client.transport.write(client.socket, bytes("x"));
    if (!n) {
      EXPECT_EQ(n.error().code(), Code::peer_lost);
      return;
    }
    client.transport.wait({}, client.transport.clock().now() + 1ms).value();
  }
  FAIL() << "no error after the peer closed";
}

TEST_P(TransportTest, NobodyListeningIsPeerLost) {
  Transport& t = transport();
  const SocketId listener = t.listen(address()).value();
  const Endpoint at = t.local(listener).value();
  t.close(listener);
  const auto client = t.connect(at);
  if (!client) {
    EXPECT_EQ(client.error().code(), Code::peer_lost);
    return;
  }
  End(t, *client).wait(false, true);
  EXPECT_EQ(t.connected(*client).error().code(), Code::peer_lost);
}

TEST_P(TransportTest, AnAddressInUseIsBusy) {
  Transport& t = transport();
  const SocketId listener = t.listen(address()).value();
  EXPECT_EQ(t.listen(t.local(listener).value()).error().code(), Code::busy);
}

TEST_P(TransportTest, WaitEndsAtTheDeadline) {
  auto [client, server] = connected_pair();
  Transport::Poll poll{client.socket, true, false};
  const Nanos deadline = client.transport.clock().now() + 3ms;
  EXPECT_EQ(client.transport.wait({&poll, 1}, deadline).value(), 0);
  EXPECT_FALSE(poll.readable);
  EXPECT_GE(client.transport.clock().now(), deadline);
}

INSTANTIATE_TEST_SUITE_P(All, TransportTest,
                         testing::Values("real tcp", "real unix", "sim tcp", "sim unix"),
                         [](const auto& param) {
                           std::string name = param.param;
                           std::replace(name.begin(), name.end(), ' ', '_');
                           return name;
                         });

struct SimFaults : testing::Test {
  SimClock clock;
  SimNetwork network{clock, 1};
  Transport& a = network.host("a");
  Transport& b = network.host("b");
  SocketId listener = a.listen(Endpoint::tcp("", 7)).value();

  End connect() {
    End client(b, b.connect(Endpoint::tcp("a", 7)).value());
    client.wait(false, true);
    return client;
  }
  End accept() {
    End(a, listener).wait(true, false);
    return {a, a.accept(listener).value().value()};
  }
};

TEST_F(SimFaults, BytesArriveAfterTheDelayAndTimeMovesOnlyByWaiting) {
  network.set_delay(5ms);
  End client = connect();
  EXPECT_EQ(clock.now(), 10ms);  // there and back
  End server = accept();
  client.put("x");
  EXPECT_EQ(clock.now(), 10ms);
  EXPECT_EQ(server.take(1), "x");
  EXPECT_EQ(clock.now(), 15ms);
}

TEST_F(SimFaults, APartitionHoldsBytesBackUntilHealed) {
  End client = connect();
  End server = accept();
  network.partition("a", "b", true);
  client.put("x");
  Transport::Poll poll{server.socket, true, false};
  EXPECT_EQ(a.wait({&poll, 1}, 10s).value(), 0);
  EXPECT_EQ(clock.now(), 10s);
  network.partition("a", "b", false);
  EXPECT_EQ(server.take(1), "x");
}

TEST_F(SimFaults, AResetBreaksBothEndsButNotTheListener) {
  End client = connect();
  End server = accept();
  network.reset("b");
  EXPECT_EQ(client.take(1), "<peer_lost>");
  EXPECT_EQ(server.take(1), "<peer_lost>");
  End again = connect();
  again.put("y");
  EXPECT_EQ(accept().take(1), "y");
}

}  // namespace
}  // namespace muster
