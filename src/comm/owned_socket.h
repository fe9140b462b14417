// OwnedSocket: a socket of a Transport that is closed with its owner, unless released.
#pragma once

#include <utility>

#include "net/transport.h"

namespace muster {

class OwnedSocket {
 public:
  // `transport` must outlive it.
  OwnedSocket(Transport& transport, SocketId socket) : transport_(transport), socket_(socket) {}
  ~OwnedSocket() {
    if (socket_.valid()) transport_.close(socket_);
  }
  OwnedSocket(const OwnedSocket&) = delete;
  OwnedSocket& operator=(const OwnedSocket&) = delete;

  SocketId get() const { return socket_; }
  SocketId release() { return std::exchange(socket_, SocketId{}); }

 private:
  Transport& transport_;
  SocketId socket_;
};

}  // namespace muster
