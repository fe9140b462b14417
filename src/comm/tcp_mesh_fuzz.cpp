// The input is all that rank 1 sends to rank 0 over TCP: who it is, then its message of 24 bytes
// and what follows.
#include <algorithm>
#include <array>
#include <span>

#include "base/check.h"
#include "base/fuzz.h"
#include "comm/tcp_mesh.h"
#include "net/sim_network.h"

namespace muster {
namespace {

constexpr uint64_t kToken = 42;
constexpr size_t kHello = 24, kPayload = 16;          // bytes
constexpr Nanos kDeadline = std::chrono::seconds{1};  // of simulated time

Fingerprint operation() {
  Fingerprint fingerprint;
  fingerprint.sequence = 1;
  fingerprint.kind = static_cast<uint32_t>(Operation::Kind::reduce_everywhere);
  return fingerprint;
}

struct Link {
  SimClock clock;
  SimNetwork network{clock, 1};
  Transport& mine;
  Transport& other;
  SocketId listener;
  std::vector<Endpoint> addresses;

  Link() : mine(network.host("rank0")), other(network.host("rank1")) {
    listener = mine.listen(Endpoint::tcp("", 0)).value();
    const uint16_t port = mine.local(listener).value().port;
    addresses = {Endpoint::tcp("rank0", port), Endpoint::tcp("rank1", 1)};
  }
};

// Two exchanges; a rank that sends rubbish must end the first or the second with an error.
Status exchange_twice(TcpMesh& mesh, int peer) {
  std::array<std::byte, kPayload> sent{}, received{};
  for (int i = 0; i < 2; ++i) {
    std::vector<TcpMesh::Message> messages(2);
    messages[static_cast<size_t>(peer)].send = {sent};
    messages[static_cast<size_t>(peer)].receive = {received};
    RankSet missing;
    MUSTER_TRY(mesh.exchange(operation(), messages, kDeadline, missing));
  }
  return {};
}

std::string read_all(Transport& transport, SocketId socket) {
  std::string all, piece(4096, '\0');
  for (;;) {
    const auto got = transport.read(socket, std::as_writable_bytes(std::span(piece)));
    if (!got.ok() || got->value_or(0) == 0) return all;
    all.append(piece, 0, **got);
  }
}

}  // namespace

// What a real rank 1 sends to a rank 0 that says nothing.
std::vector<std::string> fuzz_seeds() {
  Link link;
  const SocketId own = link.other.listen(Endpoint::tcp("", 0)).value();
  auto mesh = TcpMesh::connect(link.other, own, link.addresses, Rank{1}, kToken, kDeadline).value();
  const SocketId raw = link.mine.accept(link.listener).value().value();
  static_cast<void>(exchange_twice(*mesh, 0).ok());
  const std::string seed = read_all(link.mine, raw);
  MUSTER_CHECK(seed.size() > kPayload, seed.size());
  const Error error(Code::timeout, "late");
  mesh->end(&error, RankSet{0});
  const std::string left = read_all(link.mine, raw);
  MUSTER_CHECK(!left.empty());
  const std::string message = seed.substr(kHello);
  return {seed, seed + left, seed + message + left};
}

}  // namespace muster

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace muster;
  Link link;
  const SocketId socket = link.other.connect(link.addresses[0]).value();
  const auto input = std::as_bytes(std::span(data, std::min(size, SimNetwork::kPipeBytes)));
  static_cast<void>(link.other.write(socket, input).ok());
  const auto mesh =
      TcpMesh::connect(link.mine, link.listener, link.addresses, Rank{0}, kToken, kDeadline);
  if (mesh.ok()) static_cast<void>(exchange_twice(**mesh, 1).ok());
  return 0;
}
