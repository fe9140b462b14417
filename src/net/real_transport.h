// RealTransport: Transport on the kernel's TCP and unix sockets. Socket ids are the descriptors.
#pragma once

#include "net/transport.h"

namespace muster {

class RealTransport final : public Transport {
 public:
  explicit RealTransport(const Clock& clock) : clock_(clock) {}

  Result<SocketId> listen(const Endpoint& at) override;
  Result<Endpoint> local(SocketId socket) override;
  Result<std::optional<SocketId>> accept(SocketId listener) override;
  Result<SocketId> connect(const Endpoint& to) override;
  Status connected(SocketId socket) override;
  Result<std::optional<size_t>> read(SocketId socket, std::span<std::byte> out) override;
  Result<std::optional<size_t>> write(SocketId socket, std::span<const std::byte> data) override;
  void shutdown(SocketId socket) override;
  void close(SocketId socket) override;
  Result<int> wait(std::span<Poll> sockets, Nanos deadline) override;
  const Clock& clock() const override { return clock_; }

 private:
  const Clock& clock_;
};

}  // namespace muster
