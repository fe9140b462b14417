// Transport: the seam to stream sockets. Calls never block except wait(). Two implementations:
// RealTransport (real_transport.h) on TCP and unix sockets, and SimNetwork (sim_network.h), an
// in-memory network with virtual time and faults.
//
// A SocketId is used by one thread at a time, except that shutdown() may be called from any thread
// to make another thread's wait() on that socket return.
#pragma once

#include <cstddef>
#include <optional>
#include <span>

#include "base/clock.h"
#include "base/result.h"
#include "net/socket.h"

namespace muster {

struct SocketId {
  int value = -1;
  bool valid() const { return value >= 0; }
  bool operator==(const SocketId&) const = default;
};

class Transport {
 public:
  // What to wait for on one socket, and what came.
  struct Poll {
    SocketId socket;
    bool read = false, write = false;
    bool readable = false, writable = false;  // answers; an ended or broken socket is both
  };

  virtual ~Transport() = default;

  // Errors: busy if the address is taken.
  virtual Result<SocketId> listen(const Endpoint& at) = 0;
  virtual Result<Endpoint> local(SocketId socket) = 0;
  // Nothing = no connection waits.
  virtual Result<std::optional<SocketId>> accept(SocketId listener) = 0;
  // Begins a connection. It stands once writable and connected() is ok.
  virtual Result<SocketId> connect(const Endpoint& to) = 0;
  // Errors: peer_lost if it was refused or reset.
  virtual Status connected(SocketId socket) = 0;

  // Bytes moved now; nothing = would block. read: 0 = the peer ended its stream. Errors: peer_lost.
  virtual Result<std::optional<size_t>> read(SocketId socket, std::span<std::byte> out) = 0;
  virtual Result<std::optional<size_t>> write(SocketId socket, std::span<const std::byte> data) = 0;

  // Ends both directions: the peer reads what was sent, then the end; own reads and writes end too.
  virtual void shutdown(SocketId socket) = 0;
  virtual void close(SocketId socket) = 0;

  // Waits until one of `sockets` is ready or clock().now() >= deadline; returns how many are ready.
  virtual Result<int> wait(std::span<Poll> sockets, Nanos deadline) = 0;
  virtual const Clock& clock() const = 0;
};

}  // namespace muster
