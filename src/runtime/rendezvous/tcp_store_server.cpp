#include "runtime/rendezvous/tcp_store_server.h"

#include <fmt/format.h>

#include <array>

namespace muster {
namespace {
constexpr size_t kMaxUnsent = 16 << 20;
// One connection's share of a round, so that a flood on one does not starve the others.
constexpr size_t kMaxReadPerRound = 1 << 20;
}  // namespace

Result<std::unique_ptr<TcpStoreServer>> TcpStoreServer::serve(
    Reactor& reactor, OwnedFd listener,
    std::function<void(const std::string& reason)> on_protocol_error) {
  MUSTER_TRY(const Endpoint at, local_endpoint(listener.get()));
  std::unique_ptr<TcpStoreServer> server(
      new TcpStoreServer(reactor, std::move(listener), at.port, std::move(on_protocol_error)));
  MUSTER_TRY(reactor.watch(server->listener(), {.read = true},
                           [raw = server.get()](Readiness) { raw->accept_all(); }));
  return server;
}

TcpStoreServer::TcpStoreServer(Reactor& reactor, OwnedFd listener, uint16_t port,
                               std::function<void(const std::string&)> on_protocol_error)
    : reactor_(reactor),
      listener_(std::move(listener)),
      port_(port),
      on_protocol_error_(std::move(on_protocol_error)) {}

TcpStoreServer::~TcpStoreServer() {
  clear();
  reactor_.cancel(accept_retry_);
  reactor_.unwatch(listener_.get());
}

void TcpStoreServer::clear() {
  // A client of the old attempt still in the listener's queue would land in the new key space.
  accept_all();
  for (auto& [id, client] : clients_) reactor_.unwatch(client.fd.get());
  clients_.clear();
  store_.clear();
}

void TcpStoreServer::accept_all() {
  for (;;) {
    Result<std::optional<OwnedFd>> accepted = accept_socket(listener_.get());
    if (!accepted) {
      // Out of descriptors or memory: the connection waits in the queue; ask again later instead of
      // at once and for ever.
      if (on_protocol_error_) on_protocol_error_(accepted.error().to_string());
      if (reactor_.watched(listener_.get())) {
        static_cast<void>(reactor_.change(listener_.get(), {}));
        reactor_.cancel(accept_retry_);
        accept_retry_ = reactor_.after(std::chrono::milliseconds{50}, [this] {
          static_cast<void>(reactor_.change(listener_.get(), {.read = true}));
        });
      }
      return;
    }
    if (!*accepted) return;
    const TcpStore::ConnectionId id = store_.open();
    Client client;
    client.fd = std::move(**accepted);
    const int fd = client.fd.get();
    if (!reactor_.watch(fd, client.interest,
                        [this, id](Readiness ready) { on_ready(id, ready); })) {
      store_.close(id);
      continue;
    }
    clients_.emplace(id, std::move(client));
  }
}

void TcpStoreServer::on_ready(TcpStore::ConnectionId id, Readiness ready) {
  if (ready.write && !flush(id)) return drop(id);
  if ((ready.read || ready.hangup) && !read_from(id)) return drop(id);
  const auto it = clients_.find(id);
  if (it == clients_.end()) return;
  update_interest(it->second);
  // Gone, and not even read from for all it left unread.
  if (ready.hangup && !it->second.interest.read) drop(id);
}

bool TcpStoreServer::read_from(TcpStore::ConnectionId id) {
  std::array<std::byte, 64 << 10> buffer;
  for (size_t total = 0; total < kMaxReadPerRound;) {
    const auto it = clients_.find(id);
    if (it == clients_.end()) return true;  // closed by what it sent
    if (it->second.unsent.size() - it->second.sent > kMaxUnsent) return true;
    const Result<std::optional<size_t>> n = read_some(it->second.fd.get(), buffer);
    if (!n) return false;
    if (!*n) return true;
    if (**n == 0) return false;
    total += **n;
    TcpStore::Effects effects;
    store_.receive(id, std::span(buffer).first(**n), effects);
    apply(std::move(effects));
  }
  return true;
}

void TcpStoreServer::apply(TcpStore::Effects effects) {
  for (auto& [id, bytes] : effects.send) {
    const auto it = clients_.find(id);
    if (it == clients_.end()) continue;
    it->second.unsent += bytes;
    if (!flush(id))
      drop(id);
    else
      update_interest(it->second);
  }
  for (const auto& [id, reason] : effects.closed) {
    if (on_protocol_error_) on_protocol_error_(fmt::format("store connection closed: {}", reason));
    drop(id);
  }
}

bool TcpStoreServer::flush(TcpStore::ConnectionId id) {
  const auto it = clients_.find(id);
  if (it == clients_.end()) return true;
  Client& client = it->second;
  while (client.sent < client.unsent.size()) {
    const Result<std::optional<size_t>> n =
        write_some(client.fd.get(), std::as_bytes(std::span(client.unsent).subspan(client.sent)));
    if (!n) return false;
    if (!*n) {
      // Not at every stop: what is left is moved, and it may be much.
      if (client.sent > kMaxUnsent) {
        client.unsent.erase(0, client.sent);
        client.sent = 0;
      }
      return true;
    }
    client.sent += **n;
  }
  client.unsent.clear();
  client.sent = 0;
  return true;
}

void TcpStoreServer::drop(TcpStore::ConnectionId id) {
  store_.close(id);
  const auto it = clients_.find(id);
  if (it == clients_.end()) return;
  reactor_.unwatch(it->second.fd.get());
  clients_.erase(it);
}

void TcpStoreServer::update_interest(Client& client) {
  const size_t waiting = client.unsent.size() - client.sent;
  client.interest = {.read = waiting <= kMaxUnsent, .write = waiting > 0};
  static_cast<void>(reactor_.change(client.fd.get(), client.interest));
}

}  // namespace muster
