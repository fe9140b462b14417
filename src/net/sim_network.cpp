#include "net/sim_network.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

namespace muster {
namespace {
constexpr Nanos kNever = Nanos::max();

std::pair<std::string, std::string> ordered(const std::string& a, const std::string& b) {
  return a < b ? std::pair{a, b} : std::pair{b, a};
}
}  // namespace

// One host's view of the network.
class SimNetwork::Host final : public Transport {
 public:
  Host(SimNetwork& network, std::string name) : network_(network), name_(std::move(name)) {}

  Result<SocketId> listen(const Endpoint& at) override {
    const std::lock_guard lock(network_.mutex_);
    Endpoint bound = at;
    if (bound.kind == Endpoint::Kind::tcp && bound.port == 0) bound.port = network_.next_port_++;
    for (const auto& [id, socket] : network_.sockets_)
      if (socket.listening && socket.host == name_ && socket.listening->kind == bound.kind &&
          socket.listening->port == bound.port &&
          (bound.kind == Endpoint::Kind::tcp || socket.listening->host == bound.host))
        return Error(Code::busy, bound.to_string() + " is in use");
    Socket socket;
    socket.host = name_;
    socket.listening = bound;
    const int id = network_.next_socket_++;
    network_.sockets_.emplace(id, std::move(socket));
    return SocketId{id};
  }

  Result<Endpoint> local(SocketId socket) override {
    const std::lock_guard lock(network_.mutex_);
    const Socket& s = network_.at(socket);
    return s.listening.value_or(Endpoint::tcp(name_, 0));
  }

  Result<std::optional<SocketId>> accept(SocketId listener) override {
    const std::lock_guard lock(network_.mutex_);
    Socket& s = network_.at(listener);
    if (!network_.readable(s)) return std::optional<SocketId>();
    const int id = s.backlog.front();
    s.backlog.pop_front();
    return std::optional<SocketId>(SocketId{id});
  }

  Result<SocketId> connect(const Endpoint& to) override {
    const std::lock_guard lock(network_.mutex_);
    return network_.connect(name_, to);
  }

  Status connected(SocketId socket) override {
    const std::lock_guard lock(network_.mutex_);
    const Socket& s = network_.at(socket);
    if (s.refused) return Error(Code::peer_lost, "connect: refused");
    if (s.broken) return Error(Code::peer_lost, "connect: reset");
    return {};
  }

  Result<std::optional<size_t>> read(SocketId socket, std::span<std::byte> out) override {
    const std::lock_guard lock(network_.mutex_);
    return network_.read(network_.at(socket), out);
  }

  Result<std::optional<size_t>> write(SocketId socket, std::span<const std::byte> data) override {
    const std::lock_guard lock(network_.mutex_);
    return network_.write(network_.at(socket), data);
  }

  void shutdown(SocketId socket) override {
    const std::lock_guard lock(network_.mutex_);
    const auto it = network_.sockets_.find(socket.value);
    if (it != network_.sockets_.end()) network_.shut(it->second);
  }

  void close(SocketId socket) override {
    const std::lock_guard lock(network_.mutex_);
    const auto it = network_.sockets_.find(socket.value);
    if (it == network_.sockets_.end()) return;
    network_.shut(it->second);
    if (Socket* peer = network_.peer_of(it->second)) peer->peer = -1;
    network_.sockets_.erase(it);
    network_.changed();
  }

  Result<int> wait(std::span<Poll> sockets, Nanos deadline) override {
    std::unique_lock lock(network_.mutex_);
    for (;;) {
      const int ready = network_.look(sockets);
      if (ready > 0 || network_.clock_.now() >= deadline) return ready;
      Nanos want = deadline;
      for (const Poll& p : sockets)
        want = std::min(want, network_.next_event(network_.at(p.socket)));
      network_.wait_until(lock, want);
    }
  }

  const Clock& clock() const override { return network_.locked_clock_; }

 private:
  SimNetwork& network_;
  const std::string name_;
};

Nanos SimNetwork::LockedClock::now() const {
  const std::lock_guard lock(network_.mutex_);
  return network_.clock_.now();
}

Nanos SimNetwork::LockedClock::wall() const {
  const std::lock_guard lock(network_.mutex_);
  return network_.clock_.wall();
}

void SimNetwork::LockedClock::sleep_until(Nanos deadline) {
  std::unique_lock lock(network_.mutex_);
  while (network_.clock_.now() < deadline) network_.wait_until(lock, deadline);
}

SimNetwork::SimNetwork(SimClock& clock, int participants)
    : clock_(clock), locked_clock_(*this), participants_(participants), earliest_wanted_(kNever) {
  MUSTER_CHECK(participants >= 1, participants);
}

SimNetwork::~SimNetwork() = default;

Transport& SimNetwork::host(const std::string& name) {
  const std::lock_guard lock(mutex_);
  std::unique_ptr<Host>& host = hosts_[name];
  if (!host) host = std::make_unique<Host>(*this, name);
  return *host;
}

void SimNetwork::leave() {
  const std::lock_guard lock(mutex_);
  --participants_;
  if (participants_ > 0) jump_if_all_wait();
}

void SimNetwork::set_delay(Nanos delay) {
  const std::lock_guard lock(mutex_);
  delay_ = delay;
}

void SimNetwork::partition(const std::string& a, const std::string& b, bool on) {
  const std::lock_guard lock(mutex_);
  if (on) {
    cuts_.insert(ordered(a, b));
    return;
  }
  cuts_.erase(ordered(a, b));
  const Nanos now = clock_.now();
  for (auto& [id, socket] : sockets_) {
    if (ordered(socket.host, socket.peer_host) != ordered(a, b)) continue;
    if (socket.ready_at == kNever) socket.ready_at = now + delay_;
    for (Chunk& chunk : socket.inbound)
      if (chunk.due == kNever) chunk.due = now + delay_;
  }
  changed();
}

void SimNetwork::reset(const std::string& host_name) {
  const std::lock_guard lock(mutex_);
  for (auto& [id, socket] : sockets_)
    if (!socket.listening && (socket.host == host_name || socket.peer_host == host_name))
      socket.broken = true;
  changed();
}

SimNetwork::Socket& SimNetwork::at(SocketId id) {
  const auto it = sockets_.find(id.value);
  MUSTER_CHECK(it != sockets_.end(), id.value);
  return it->second;
}

SimNetwork::Socket* SimNetwork::peer_of(const Socket& socket) {
  const auto it = sockets_.find(socket.peer);
  return it == sockets_.end() ? nullptr : &it->second;
}

bool SimNetwork::cut(const std::string& a, const std::string& b) const {
  return cuts_.contains(ordered(a, b));
}

Nanos SimNetwork::arrival(const Socket& socket, int trips) const {
  if (cut(socket.host, socket.peer_host)) return kNever;
  return clock_.now() + trips * delay_;
}

bool SimNetwork::readable(const Socket& socket) const {
  const Nanos now = clock_.now();
  if (socket.listening)
    return !socket.backlog.empty() && sockets_.at(socket.backlog.front()).ready_at <= now;
  if (socket.broken || socket.ended) return true;
  if (socket.refused) return socket.ready_at <= now;
  return !socket.inbound.empty() && socket.inbound.front().due <= now;
}

bool SimNetwork::writable(const Socket& socket) {
  if (socket.listening) return false;
  if (socket.broken || socket.ended) return true;
  if (socket.ready_at > clock_.now()) return false;
  const Socket* peer = peer_of(socket);
  return peer == nullptr || peer->inbound_bytes < kPipeBytes;
}

Nanos SimNetwork::next_event(const Socket& socket) const {
  const Nanos now = clock_.now();
  Nanos next = kNever;
  const auto consider = [&](Nanos time) {
    if (time > now) next = std::min(next, time);
  };
  consider(socket.ready_at);
  if (!socket.inbound.empty()) consider(socket.inbound.front().due);
  if (!socket.backlog.empty()) consider(sockets_.at(socket.backlog.front()).ready_at);
  return next;
}

Result<SocketId> SimNetwork::connect(const std::string& from, const Endpoint& to) {
  const bool own =
      to.kind == Endpoint::Kind::unix_path || to.host == "127.0.0.1" || to.host == "localhost";
  const std::string target = own ? from : to.host;
  Socket near;
  near.host = from;
  near.peer_host = target;
  near.ready_at = arrival(near, 2);
  near.refused = true;
  const int near_id = next_socket_++;
  for (auto& [id, listener] : sockets_) {
    if (!listener.listening || listener.host != target || listener.listening->kind != to.kind)
      continue;
    if (to.kind == Endpoint::Kind::tcp ? listener.listening->port != to.port
                                       : listener.listening->host != to.host)
      continue;
    Socket far;
    far.host = target;
    far.peer_host = from;
    far.ready_at = arrival(near, 1);
    far.peer = near_id;
    near.peer = next_socket_++;
    near.refused = false;
    listener.backlog.push_back(near.peer);
    sockets_.emplace(near.peer, std::move(far));
    break;
  }
  sockets_.emplace(near_id, std::move(near));
  changed();
  return SocketId{near_id};
}

Result<std::optional<size_t>> SimNetwork::read(Socket& socket, std::span<std::byte> out) {
  if (socket.broken || socket.refused) return Error(Code::peer_lost, "read: connection reset");
  if (socket.ended) return std::optional<size_t>(0);
  size_t taken = 0;
  while (taken < out.size() && !socket.inbound.empty()) {
    Chunk& chunk = socket.inbound.front();
    if (chunk.due > clock_.now()) break;
    if (chunk.end) {
      if (taken > 0) break;
      return std::optional<size_t>(0);
    }
    const size_t n = std::min(out.size() - taken, chunk.bytes.size());
    std::memcpy(out.data() + taken, chunk.bytes.data(), n);
    taken += n;
    chunk.bytes.erase(0, n);
    if (chunk.bytes.empty()) socket.inbound.pop_front();
  }
  if (taken == 0) return std::optional<size_t>();
  socket.inbound_bytes -= taken;
  changed();
  return std::optional<size_t>(taken);
}

Result<std::optional<size_t>> SimNetwork::write(Socket& socket, std::span<const std::byte> data) {
  if (socket.broken || socket.refused || socket.ended)
    return Error(Code::peer_lost, "write: connection reset");
  if (socket.ready_at > clock_.now()) return std::optional<size_t>();
  Socket* peer = peer_of(socket);
  if (peer == nullptr) return Error(Code::peer_lost, "write: broken pipe");
  if (peer->inbound_bytes >= kPipeBytes) return std::optional<size_t>();
  const size_t n = std::min(data.size(), kPipeBytes - peer->inbound_bytes);
  peer->inbound.push_back(
      {arrival(socket, 1), std::string(reinterpret_cast<const char*>(data.data()), n), false});
  peer->inbound_bytes += n;
  changed();
  return std::optional<size_t>(n);
}

void SimNetwork::shut(Socket& socket) {
  if (socket.ended) return;
  socket.ended = true;
  if (Socket* peer = peer_of(socket)) peer->inbound.push_back({arrival(socket, 1), "", true});
  changed();
}

int SimNetwork::look(std::span<Transport::Poll> sockets) {
  int ready = 0;
  for (Transport::Poll& p : sockets) {
    Socket& socket = at(p.socket);
    const bool gone =
        socket.broken || socket.ended || (socket.refused && socket.ready_at <= clock_.now());
    p.readable = gone || (p.read && readable(socket));
    p.writable = gone || (p.write && writable(socket));
    ready += p.readable || p.writable;
  }
  return ready;
}

void SimNetwork::changed() {
  ++changes_;
  waiting_ = 0;
  earliest_wanted_ = kNever;
  condition_.notify_all();
}

void SimNetwork::jump_if_all_wait() {
  if (waiting_ < participants_) return;
  MUSTER_CHECK(earliest_wanted_ != kNever,
               "every participant waits for something that cannot come");
  clock_.sleep_until(earliest_wanted_);
  changed();
}

void SimNetwork::wait_until(std::unique_lock<std::mutex>& lock, Nanos want) {
  const uint64_t seen = changes_;
  ++waiting_;
  earliest_wanted_ = std::min(earliest_wanted_, want);
  jump_if_all_wait();
  condition_.wait(lock, [&] { return changes_ != seen; });
}

}  // namespace muster
