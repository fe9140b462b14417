// TcpStoreClient: one blocking connection to a store in the TCPStore protocol: ours, torchrun's or
// a script's own. Keys get the "/" that torch's client puts before every key, so both see the same
// ones. One thread at a time. After any error but timeout the connection is unusable.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "base/clock.h"
#include "base/result.h"
#include "net/transport.h"

namespace muster {

class TcpStoreClient {
 public:
  // Tries again until `timeout` if nobody listens yet, as torch does. `transport` must outlive the
  // client. Errors: timeout, with the last reason.
  static Result<std::unique_ptr<TcpStoreClient>> connect(Transport& transport,
                                                         const Endpoint& store, Nanos timeout);
  ~TcpStoreClient();
  TcpStoreClient(const TcpStoreClient&) = delete;
  TcpStoreClient& operator=(const TcpStoreClient&) = delete;

  Status set(std::string_view key, std::string_view value);
  Result<int64_t> add(std::string_view key, int64_t delta);
  // Waits until the key is there. Errors: timeout names the key.
  Result<std::string> get(std::string_view key, Nanos timeout);

 private:
  TcpStoreClient(Transport& transport, SocketId socket) : transport_(transport), socket_(socket) {}
  Status send(std::string_view bytes);
  // Exactly `count` bytes. Errors: timeout once `deadline` passes with nothing of them read.
  Result<std::string> receive(size_t count, Nanos deadline);
  Status wait_for_key(std::string_view key, Nanos timeout);

  Transport& transport_;
  SocketId socket_;
};

}  // namespace muster
