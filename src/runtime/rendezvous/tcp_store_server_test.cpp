// The store on real sockets: our client, and torch's own client run unmodified.
#include "runtime/rendezvous/tcp_store_server.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>

#include "net/real_transport.h"
#include "runtime/rendezvous/tcp_store_client.h"
#include "runtime/rendezvous/tcp_store_test_wire.h"

namespace muster {
namespace {

using namespace std::chrono_literals;

// A served store: the reactor runs on its own thread; do() runs something there.
struct ServedStore : testing::Test {
  RealClock clock;
  RealTransport transport{clock};
  std::unique_ptr<Reactor> reactor = std::move(Reactor::make(clock)).value();
  std::unique_ptr<TcpStoreServer> server;
  std::atomic<int> protocol_errors = 0;
  std::atomic<bool> stop = false;
  std::thread loop;
  Endpoint at;

  void SetUp() override {
    OwnedFd listener = listen_socket(Endpoint::tcp("127.0.0.1", 0), 64).value();
    server = TcpStoreServer::serve(*reactor, std::move(listener), [this](const std::string&) {
               ++protocol_errors;
             }).value();
    at = Endpoint::tcp("127.0.0.1", server->port());
    loop = std::thread([this] { ASSERT_TRUE(reactor->run_until([this] { return stop.load(); })); });
  }
  void TearDown() override {
    stop = true;
    reactor->wake();
    loop.join();
  }
  void on_loop(const std::function<void()>& action) {
    std::atomic<bool> done = false;
    reactor->post([&] {
      action();
      done = true;
      done.notify_one();
    });
    done.wait(false);
  }
  std::unique_ptr<TcpStoreClient> connect() {
    return TcpStoreClient::connect(transport, at, 30s).value();
  }
};

TEST_F(ServedStore, OurClientSetsAddsAndWaits) {
  const auto a = connect(), b = connect();
  ASSERT_TRUE(a->set("k", "value"));
  EXPECT_EQ(b->get("k", 30s).value(), "value");
  EXPECT_EQ(b->add("n", 2).value(), 2);
  EXPECT_EQ(a->add("n", 3).value(), 5);
  std::thread later([&] { ASSERT_TRUE(a->set("late", "")); });
  EXPECT_EQ(b->get("late", 30s).value(), "");
  later.join();
}

TEST_F(ServedStore, AGetThatTimesOutNamesTheKeyAndTheConnectionGoesOn) {
  const auto client = connect();
  const auto missing = client->get("nobody-sets-this", 5ms);
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().code(), Code::timeout);
  EXPECT_NE(missing.error().message().find("nobody-sets-this"), std::string::npos);
  EXPECT_EQ(client->add("n", 1).value(), 1);
}

TEST_F(ServedStore, AValueLargerThanAnySocketBufferArrivesWhole) {
  const auto a = connect(), b = connect();
  const std::string value(kTcpStoreMaxValue, 'x');
  ASSERT_TRUE(a->set("big", value));
  EXPECT_EQ(b->get("big", 30s).value(), value);
}

TEST_F(ServedStore, ClearEndsOldConnectionsAndTheNextAttemptStartsEmptyOnTheSamePort) {
  const auto old = connect();
  ASSERT_TRUE(old->set("default_pg/0//cpu//0/0", "stale address"));
  EXPECT_EQ(old->add("n", 1).value(), 1);
  on_loop([&] { server->clear(); });
  EXPECT_EQ(old->add("n", 1).error().code(), Code::peer_lost);
  const auto fresh = connect();
  EXPECT_EQ(fresh->get("default_pg/0//cpu//0/0", 1ms).error().code(), Code::timeout);
  EXPECT_EQ(fresh->add("n", 1).value(), 1);
}

TEST_F(ServedStore, AClientThatBreaksTheProtocolIsClosedAndTheOthersAreServed) {
  const auto good = connect();
  const SocketId bad = transport.connect(at).value();
  const std::string junk = "GET / HTTP/1.1\r\n\r\n";
  Transport::Poll writable{bad, false, true};
  ASSERT_EQ(transport.wait({&writable, 1}, clock.now() + 30s).value(), 1);
  ASSERT_TRUE(transport.write(bad, std::as_bytes(std::span(junk))));
  Transport::Poll readable{bad, true, false};
  ASSERT_EQ(transport.wait({&readable, 1}, clock.now() + 30s).value(), 1);
  std::byte byte{};
  const auto end = transport.read(bad, {&byte, 1});
  EXPECT_TRUE(!end || **end == 0);
  transport.close(bad);
  EXPECT_EQ(protocol_errors, 1);
  EXPECT_EQ(good->add("n", 1).value(), 1);
}

TEST_F(ServedStore, AClientThatNeverReadsIsHeldBackAndTheOthersAreServed) {
  const auto good = connect();
  ASSERT_TRUE(good->set("big", std::string(kTcpStoreMaxValue, 'x')));
  EXPECT_EQ(good->add("set is done", 1).value(), 1);
  const SocketId deaf = transport.connect(at).value();
  std::string flood = wire::hello();
  for (int i = 0; i < 4; ++i) flood += wire::op(TcpStoreOp::get, {"/big"});
  Transport::Poll writable{deaf, false, true};
  ASSERT_EQ(transport.wait({&writable, 1}, clock.now() + 30s).value(), 1);
  ASSERT_TRUE(transport.write(deaf, std::as_bytes(std::span(flood))));
  EXPECT_EQ(good->add("n", 1).value(), 1);
  // Reading makes the rest come.
  size_t left = 4 * (8 + kTcpStoreMaxValue);
  std::string buffer(1 << 20, '\0');
  while (left > 0) {
    const auto n = transport.read(deaf, std::as_writable_bytes(std::span(buffer)));
    ASSERT_TRUE(n) << n.error().to_string();
    if (!*n) {
      Transport::Poll readable{deaf, true, false};
      ASSERT_EQ(transport.wait({&readable, 1}, clock.now() + 30s).value(), 1);
      continue;
    }
    ASSERT_GT(**n, 0u);
    left -= **n;
  }
  transport.close(deaf);
}

TEST_F(ServedStore, NobodyListeningIsATimeoutThatNamesTheAddress) {
  const OwnedFd listener = listen_socket(Endpoint::tcp("127.0.0.1", 0), 1).value();
  const Endpoint closed = local_endpoint(listener.get()).value();
  const_cast<OwnedFd&>(listener).reset();
  const auto client = TcpStoreClient::connect(transport, closed, 50ms);
  ASSERT_FALSE(client);
  EXPECT_EQ(client.error().code(), Code::timeout);
  EXPECT_NE(client.error().message().find(closed.to_string()), std::string::npos);
}

constexpr const char* kTorchClient = R"py(
import sys, threading
from datetime import timedelta
try:
    import torch.distributed as dist
except Exception as e:
    print("cannot import torch.distributed:", e); sys.exit(77)
port = int(sys.argv[1])
def store(world=None):
    return dist.TCPStore("127.0.0.1", port, world_size=world, is_master=False,
                         timeout=timedelta(seconds=60), wait_for_workers=False)
s, t = store(2), store()
s.set("ab", "xyz");                     assert t.get("ab") == b"xyz"
assert s.add("n", 5) == 5 and t.add("n", -7) == -2 and s.get("n") == b"-2"
assert s.check(["ab"]) and not s.check(["ab", "zz"])
assert s.compare_set("c", "", "v1") == b"v1" and s.compare_set("c", "no", "v2") == b"v1"
assert s.compare_set("c", "v1", "v2") == b"v2" and s.compare_set("missing", "x", "y") == b"x"
s.append("ap", "12"); assert s.get("ap") == b"12"   # an append has no answer to wait for
t.append("ap", "34"); assert t.get("ap") == b"1234"
s.multi_set(["m1", "m2"], ["A", "BB"]);  assert t.multi_get(["m1", "m2"]) == [b"A", b"BB"]
before = s.num_keys()
assert s.delete_key("ab") and not s.delete_key("ab") and s.num_keys() == before - 1
s.queue_push("q", "v1"); s.queue_push("q", "v2")
assert s.queue_len("q") == 2 and t.queue_pop("q") == b"v1" and t.queue_pop("q") == b"v2"
assert "n" in s.list_keys() and "m2" in s.list_keys()
for call in (lambda: s.wait(["never"], timedelta(milliseconds=50)),
             lambda: s.queue_pop("empty-queue", False)):
    try:
        call(); raise SystemExit("no error from a call that must fail")
    except dist.DistError: pass
late = threading.Timer(0.01, lambda: t.set("late", "now")); late.start()
assert s.get("late") == b"now"
pusher = threading.Timer(0.01, lambda: t.queue_push("late-queue", "item")); pusher.start()
assert s.queue_pop("late-queue") == b"item"
other = threading.Thread(target=lambda: t.barrier("bar", 2, timedelta(seconds=60))); other.start()
s.barrier("bar", 2, timedelta(seconds=60)); other.join()
p = dist.PrefixStore("pre", s); p.set("k", "v"); assert t.get("pre/k") == b"v"
s.set("big", "x" * (8 << 20)); assert len(t.get("big")) == 8 << 20
c = s.clone(); assert c.get("c") == b"v2"
print("all operations")
)py";

TEST_F(ServedStore, TorchsOwnClientRunsEveryOperation) {
  const char* given = std::getenv("MUSTER_PYTHON");
  const std::string python = given ? given : MUSTER_SOURCE_DIR "/.venv/bin/python";
  if (::access(python.c_str(), X_OK) != 0)
    GTEST_SKIP() << python << " is not there; set MUSTER_PYTHON to a Python with torch";
  const std::string script = testing::TempDir() + "muster_store_" + std::to_string(::getpid());
  FILE* file = std::fopen(script.c_str(), "w");
  ASSERT_NE(file, nullptr);
  std::fputs(kTorchClient, file);
  std::fclose(file);
  const std::string command =
      python + " " + script + " " + std::to_string(server->port()) + " 2>&1";
  FILE* run = ::popen(command.c_str(), "r");
  ASSERT_NE(run, nullptr);
  std::string output;
  char buffer[4096];
  while (const size_t n = std::fread(buffer, 1, sizeof buffer, run)) output.append(buffer, n);
  const int status = ::pclose(run);
  ::unlink(script.c_str());
  if (WIFEXITED(status) && WEXITSTATUS(status) == 77) GTEST_SKIP() << output;
  EXPECT_EQ(status, 0) << output;
  EXPECT_NE(output.find("all operations"), std::string::npos) << output;
  EXPECT_EQ(protocol_errors, 0);
}

}  // namespace
}  // namespace muster
