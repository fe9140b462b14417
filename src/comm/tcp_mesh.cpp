#include "comm/tcp_mesh.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "base/check.h"
#include "comm/owned_socket.h"

namespace muster {
namespace {

using namespace std::chrono_literals;

constexpr uint64_t kMagic = 0x31636D6D6D75ull;  // "ummmc1"
constexpr Nanos kRetryDelay = 10ms;
constexpr uint64_t kLeft = 255;  // in place of a code: nothing failed
// A rank says who it is at once; a stranger may hold up the others no longer than this.
constexpr Nanos kHelloTime = 5s;

// The first bytes of a connection, from the side that opened it.
struct Hello {
  uint64_t magic = kMagic;
  uint64_t token = 0;
  int64_t rank = 0;
};

size_t total(const std::vector<std::span<const std::byte>>& pieces) {
  size_t sum = 0;
  for (const auto& piece : pieces) sum += piece.size();
  return sum;
}

size_t total(const std::vector<std::span<std::byte>>& pieces) {
  size_t sum = 0;
  for (const auto& piece : pieces) sum += piece.size();
  return sum;
}

// The unfinished rest of the piece in which byte `at` lies.
template <class Byte>
std::span<Byte> rest_at(const std::vector<std::span<Byte>>& pieces, size_t at) {
  for (const std::span<Byte> piece : pieces) {
    if (at < piece.size()) return piece.subspan(at);
    at -= piece.size();
  }
  return {};
}

template <class T>
std::span<std::byte> bytes_of(T& value) {
  return std::as_writable_bytes(std::span(&value, 1));
}

// Reads or writes the whole of a small value on a socket that may block.
Status move_all(Transport& transport, SocketId socket, std::span<std::byte> bytes, bool read,
                Nanos deadline) {
  while (!bytes.empty()) {
    MUSTER_TRY(const std::optional<size_t> n,
               read ? transport.read(socket, bytes) : transport.write(socket, bytes));
    if (n && *n == 0) return Error(Code::peer_lost, "the connection was closed");
    if (n) {
      bytes = bytes.subspan(*n);
      continue;
    }
    Transport::Poll poll{socket, read, !read};
    MUSTER_TRY(const int ready, transport.wait({&poll, 1}, deadline));
    if (ready == 0) return Error(Code::timeout, "no answer in time");
  }
  return {};
}

Result<SocketId> open_connection(Transport& transport, const Endpoint& to, Nanos deadline) {
  for (;;) {
    Result<SocketId> socket = transport.connect(to);
    if (socket) {
      OwnedSocket owned(transport, *socket);
      Transport::Poll poll{*socket, false, true};
      MUSTER_TRY(const int ready, transport.wait({&poll, 1}, deadline));
      Status up = ready == 0 ? Status(Error(Code::timeout, "no answer to the connection"))
                             : transport.connected(*socket);
      if (up) return owned.release();
      socket = std::move(up).error();
    }
    const Nanos next = transport.clock().now() + kRetryDelay;
    if (socket.error().code() != Code::peer_lost || next >= deadline)
      return std::move(socket).context("connect to " + to.to_string());
    MUSTER_TRY(transport.wait({}, next));
  }
}

Result<SocketId> accept_connection(Transport& transport, SocketId listener, Nanos deadline) {
  for (;;) {
    MUSTER_TRY(const std::optional<SocketId> socket, transport.accept(listener));
    if (socket) return *socket;
    Transport::Poll poll{listener, true, false};
    MUSTER_TRY(const int ready, transport.wait({&poll, 1}, deadline));
    if (ready == 0) return Error(Code::timeout, "no connection in time");
  }
}

}  // namespace

struct TcpMesh::Header {
  uint64_t magic = kMagic;
  Fingerprint fingerprint;
  uint64_t bytes = 0;
  // When the kind is `leave`: why, and the first 64 ranks to blame.
  uint64_t code = 0;
  uint64_t missing = 0;
};

struct TcpMesh::Peer {
  SocketId socket;
  Header out, in;
  size_t sent = 0, to_send = 0;         // of header and payload together
  size_t in_header = 0;                 // bytes of `in` that are there; may be of the next message
  size_t received = 0, to_receive = 0;  // of the payload
  bool in_payload = false;              // `in` belongs to this exchange and was judged
  bool finished_in = false;
  std::optional<Error> gone;  // what the next exchange will meet
  RankSet gone_missing;
};

Result<std::unique_ptr<TcpMesh>> TcpMesh::connect(Transport& transport, SocketId listener,
                                                  const std::vector<Endpoint>& addresses, Rank rank,
                                                  uint64_t token, Nanos deadline) {
  const int world = static_cast<int>(addresses.size());
  std::unique_ptr<TcpMesh> mesh(new TcpMesh(transport, rank, world));
  const OwnedSocket owned_listener(transport, listener);
  MUSTER_TRY(mesh->make_wake_socket(deadline));
  // Each rank calls those before it and is called by those after it.
  for (int r = 0; r < rank.value; ++r) {
    Peer& peer = mesh->peers_[static_cast<size_t>(r)];
    Result<SocketId> socket =
        open_connection(transport, addresses[static_cast<size_t>(r)], deadline);
    if (!socket) return std::move(socket).error().context(fmt::format("reaching rank {}", r));
    peer.socket = *socket;
    Hello hello{kMagic, token, rank.value};
    MUSTER_TRY(move_all(transport, peer.socket, bytes_of(hello), false, deadline));
  }
  for (int waiting = world - 1 - rank.value; waiting > 0;) {
    Result<SocketId> socket = accept_connection(transport, listener, deadline);
    if (!socket) {
      RankSet absent;
      for (int32_t r = rank.value + 1; r < world; ++r)
        if (!mesh->peers_[static_cast<size_t>(r)].socket.valid()) absent.insert(Rank{r});
      return std::move(socket).error().context(
          fmt::format("waiting for ranks {} to connect", absent.to_string()));
    }
    Hello hello;
    const Nanos soon = std::min(deadline, transport.clock().now() + kHelloTime);
    const Status read = move_all(transport, *socket, bytes_of(hello), true, soon);
    const bool ours = read && hello.magic == kMagic && hello.token == token &&
                      hello.rank > rank.value && hello.rank < world &&
                      !mesh->peers_[static_cast<size_t>(hello.rank)].socket.valid();
    if (!ours) {  // a stranger on a loopback port
      transport.close(*socket);
      continue;
    }
    mesh->peers_[static_cast<size_t>(hello.rank)].socket = *socket;
    --waiting;
  }
  return mesh;
}

TcpMesh::TcpMesh(Transport& transport, Rank rank, int world)
    : transport_(transport), me_(rank.value), peers_(static_cast<size_t>(world)) {}

TcpMesh::~TcpMesh() {
  for (const Peer& peer : peers_) transport_.close(peer.socket);
  transport_.close(wake_in_);
  transport_.close(wake_out_);
}

Status TcpMesh::make_wake_socket(Nanos deadline) {
  MUSTER_TRY(const SocketId bound, transport_.listen(Endpoint::tcp("127.0.0.1", 0)));
  const OwnedSocket listener(transport_, bound);
  MUSTER_TRY(Endpoint at, transport_.local(bound));
  at.host = "127.0.0.1";
  Result<SocketId> in = open_connection(transport_, at, deadline);
  if (in) wake_in_ = *in;
  Result<SocketId> out = accept_connection(transport_, bound, deadline);
  if (out) wake_out_ = *out;
  if (!in) return std::move(in).error();
  if (!out) return std::move(out).error();
  return {};
}

Status TcpMesh::begin(const Fingerprint& fingerprint, std::span<Message> messages,
                      RankSet& missing) {
  MUSTER_CHECK(messages.size() == peers_.size(), messages.size());
  for (size_t r = 0; r < peers_.size(); ++r) {
    Peer& peer = peers_[r];
    const size_t payload = total(messages[r].send);
    peer.out = Header{.fingerprint = fingerprint, .bytes = payload};
    peer.sent = 0;
    peer.to_send = sizeof(Header) + payload;
    peer.received = 0;
    peer.to_receive = total(messages[r].receive);
    peer.in_payload = false;
    peer.finished_in = false;
  }
  for (const Peer& peer : peers_) {
    if (!peer.gone) continue;
    missing = peer.gone_missing;
    return *peer.gone;
  }
  return {};
}

bool TcpMesh::done(int peer) const {
  const Peer& p = peers_[static_cast<size_t>(peer)];
  return p.sent == p.to_send && p.finished_in;
}

Status TcpMesh::exchange(const Fingerprint& fingerprint, std::span<Message> messages,
                         Nanos deadline, RankSet& missing) {
  const std::lock_guard running(running_);
  if (ended_) return Error(Code::cancelled, "the group was ended");
  MUSTER_TRY(begin(fingerprint, messages, missing));
  const int world = static_cast<int>(peers_.size());
  for (const Peer* failed = nullptr;;) {
    bool all_done = true;
    for (int r = 0; r < world; ++r) {
      if (r == me_) continue;
      Message& message = messages[static_cast<size_t>(r)];
      if (!done(r)) {
        Status moved = send_to(r, message);
        MUSTER_TRY(receive_from(r, message, fingerprint, missing));
        if (!moved) {
          // What the peer said last, if anything, tells more than a failed write.
          MUSTER_TRY(read_header(r, missing));
          return lost(r, moved.error(), missing);
        }
      }
      all_done = all_done && done(r);
    }
    if (all_done) return {};
    if (failed) {
      missing = failed->gone_missing;
      return *failed->gone;
    }

    polls_.clear();
    polled_.clear();
    polls_.push_back({wake_out_, true, false});
    polled_.push_back(-1);
    for (int r = 0; r < world; ++r) {
      const Peer& p = peers_[static_cast<size_t>(r)];
      // Also of those that are done: the next header, or the news that they ended the group.
      const bool read = r != me_ && !p.gone && (!p.finished_in || p.in_header < sizeof(Header));
      const bool write = r != me_ && p.sent < p.to_send;
      if (!read && !write) continue;
      polls_.push_back({p.socket, read, write});
      polled_.push_back(r);
    }
    MUSTER_TRY(const int ready, transport_.wait(polls_, deadline));
    if (ended_) return Error(Code::cancelled, "the group was ended");
    if (ready == 0) return late(fingerprint, missing);
    for (size_t i = 1; i < polls_.size(); ++i) {
      const int r = polled_[i];
      if (polls_[i].readable && done(r) && look_ahead(r)) failed = &peers_[static_cast<size_t>(r)];
    }
  }
}

Status TcpMesh::send_to(int peer, Message& message) {
  Peer& p = peers_[static_cast<size_t>(peer)];
  while (p.sent < p.to_send) {
    const std::span<const std::byte> piece =
        p.sent < sizeof(Header) ? std::as_bytes(std::span(&p.out, 1)).subspan(p.sent)
                                : rest_at(message.send, p.sent - sizeof(Header));
    MUSTER_TRY(const std::optional<size_t> n, transport_.write(p.socket, piece));
    if (!n) return {};
    p.sent += *n;
  }
  return {};
}

Status TcpMesh::read_header(int peer, RankSet& missing) {
  Peer& p = peers_[static_cast<size_t>(peer)];
  while (p.in_header < sizeof(Header)) {
    const Result<std::optional<size_t>> n =
        transport_.read(p.socket, bytes_of(p.in).subspan(p.in_header));
    if (!n) return lost(peer, n.error(), missing);
    if (!*n) return {};
    if (**n == 0) return lost(peer, Error(Code::peer_lost, "it closed the connection"), missing);
    p.in_header += **n;
  }
  if (p.in.magic != kMagic)
    return Error(Code::corrupt, fmt::format("rank {} sent something that is no message", peer));
  if (p.in.fingerprint.kind == static_cast<uint32_t>(Operation::Kind::leave))
    return peer_ended(peer, missing);
  return {};
}

// A peer that did its part in this exchange may leave, or even die: the next exchange is the one
// that cannot be. But news that the group failed counts now, unless the others' parts are here
// already.
bool TcpMesh::look_ahead(int peer) {
  Peer& p = peers_[static_cast<size_t>(peer)];
  Status status = read_header(peer, p.gone_missing);
  if (status) return false;
  p.gone = std::move(status).error();
  return p.in_header == sizeof(Header) && p.in.code != kLeft;
}

Status TcpMesh::receive_from(int peer, Message& message, const Fingerprint& fingerprint,
                             RankSet& missing) {
  Peer& p = peers_[static_cast<size_t>(peer)];
  if (p.finished_in) return {};
  if (!p.in_payload) {
    MUSTER_TRY(read_header(peer, missing));
    if (p.in_header < sizeof(Header)) return {};
    if (p.in.fingerprint != fingerprint || p.in.bytes != p.to_receive)
      return Error(Code::invalid_argument,
                   describe_difference(me_, fingerprint, peer, p.in.fingerprint));
    p.in_payload = true;
  }
  while (p.received < p.to_receive) {
    const Result<std::optional<size_t>> n =
        transport_.read(p.socket, rest_at(message.receive, p.received));
    if (!n) return lost(peer, n.error(), missing);
    if (!*n) return {};
    if (**n == 0) return lost(peer, Error(Code::peer_lost, "it closed the connection"), missing);
    p.received += **n;
  }
  p.finished_in = true;
  p.in_header = 0;
  return {};
}

Error TcpMesh::peer_ended(int peer, RankSet& missing) {
  const Header& in = peers_[static_cast<size_t>(peer)].in;
  for (int32_t r = 0; r < 64; ++r)
    if (in.missing >> r & 1) missing.insert(Rank{r});
  if (in.code == kLeft) {
    missing.insert(Rank{peer});
    return Error(Code::cancelled, fmt::format("rank {} left the group", peer));
  }
  const auto code = in.code <= static_cast<uint64_t>(Code::internal) ? static_cast<Code>(in.code)
                                                                     : Code::peer_lost;
  return Error(code, fmt::format("rank {} ended the group ({}{})", peer, code_name(code),
                                 missing.empty() ? "" : ", it blames " + missing.to_string()));
}

Error TcpMesh::lost(int peer, const Error& why, RankSet& missing) {
  missing.insert(Rank{peer});
  return Error(Code::peer_lost, fmt::format("rank {} is gone: {}", peer, why.message()));
}

Error TcpMesh::late(const Fingerprint& fingerprint, RankSet& missing) const {
  for (int32_t r = 0; r < static_cast<int32_t>(peers_.size()); ++r)
    if (r != me_ && !done(r)) missing.insert(Rank{r});
  return Error(Code::timeout, fmt::format("ranks {} did not finish {} in time", missing.to_string(),
                                          describe(fingerprint)));
}

void TcpMesh::end(const Error* error, const RankSet& missing) {
  if (ended_.exchange(true)) return;
  const std::byte one{1};
  static_cast<void>(transport_.write(wake_in_, {&one, 1}));
  const std::lock_guard running(running_);
  Header farewell;
  farewell.fingerprint.kind = static_cast<uint32_t>(Operation::Kind::leave);
  farewell.code = error ? static_cast<uint64_t>(error->code()) : kLeft;
  for (const int32_t rank : missing.ranks())
    if (rank < 64) farewell.missing |= uint64_t{1} << rank;
  for (const Peer& peer : peers_) {
    if (!peer.socket.valid()) continue;
    // In the middle of a message it would be taken for payload; the closed stream must do then.
    if (peer.sent == peer.to_send || peer.sent == 0)
      static_cast<void>(transport_.write(peer.socket, std::as_bytes(std::span(&farewell, 1))));
    transport_.shutdown(peer.socket);
  }
}

}  // namespace muster
