// TcpStoreServer: serves a TcpStore (tcp_store.h) on a listening socket, on a Reactor's thread.
// Owns: the listener, the client sockets, their unsent answers.
//
// Invariants:
//  - a broken or hostile client loses its own connection, nothing else;
//  - a client that does not read its answers is not read from while more than 16 MiB wait for it;
//  - clear() ends every connection and empties the store: what belonged to the previous attempt is
//    gone before the next one starts. The listener, and so the port, stays.
// Runs on the reactor's thread only.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <unordered_map>

#include "base/result.h"
#include "net/reactor.h"
#include "net/socket.h"
#include "runtime/rendezvous/tcp_store.h"

namespace muster {

class TcpStoreServer {
 public:
  // Takes a listening stream socket (listen_socket in net/socket.h). `reactor` must outlive the
  // server. `on_protocol_error` (may be empty) hears why a connection was closed.
  static Result<std::unique_ptr<TcpStoreServer>> serve(
      Reactor& reactor, OwnedFd listener,
      std::function<void(const std::string& reason)> on_protocol_error);
  ~TcpStoreServer();
  TcpStoreServer(const TcpStoreServer&) = delete;
  TcpStoreServer& operator=(const TcpStoreServer&) = delete;

  uint16_t port() const { return port_; }
  int listener() const { return listener_.get(); }
  const TcpStore& store() const { return store_; }
  size_t connections() const { return clients_.size(); }

  // A new, empty key space for the next attempt.
  void clear();

 private:
  struct Client {
    OwnedFd fd;
    std::string unsent;
    size_t sent = 0;  // of unsent
    Interest interest{true, false};
  };

  TcpStoreServer(Reactor& reactor, OwnedFd listener, uint16_t port,
                 std::function<void(const std::string&)> on_protocol_error);
  void accept_all();
  void on_ready(TcpStore::ConnectionId id, Readiness ready);
  bool read_from(TcpStore::ConnectionId id);
  void apply(TcpStore::Effects effects);
  bool flush(TcpStore::ConnectionId id);
  void drop(TcpStore::ConnectionId id);
  void update_interest(Client& client);

  Reactor& reactor_;
  OwnedFd listener_;
  uint16_t port_;
  std::function<void(const std::string&)> on_protocol_error_;
  TcpStore store_;
  std::unordered_map<TcpStore::ConnectionId, Client> clients_;
  Reactor::TimerId accept_retry_ = 0;
};

}  // namespace muster
