#include "runtime/rendezvous/tcp_store_client.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "runtime/rendezvous/tcp_store_request.h"

namespace muster {
namespace {

using namespace std::chrono_literals;

// An answer that does not wait for other ranks comes at once; this only bounds a dead server.
constexpr Nanos kAnswerTime = 60s;
constexpr Nanos kRetryDelay = 20ms;

void put_u64(std::string& out, uint64_t number) {
  out.append(reinterpret_cast<const char*>(&number), sizeof number);
}

void put_text(std::string& out, std::string_view text) {
  put_u64(out, text.size());
  out += text;
}

std::string request(TcpStoreOp op, std::string_view key) {
  std::string out(1, static_cast<char>(op));
  put_u64(out, key.size() + 1);
  out += '/';
  out += key;
  return out;
}

template <class T>
T number_in(std::string_view bytes) {
  T number;
  // NOLINTNEXTLINE(bugprone-suspicious-stringview-data-usage): the size is given
  std::memcpy(&number, bytes.data(), sizeof number);
  return number;
}

Status finish_connect(Transport& transport, SocketId socket, Nanos deadline) {
  Transport::Poll poll{socket, false, true};
  MUSTER_TRY(const int ready, transport.wait({&poll, 1}, deadline));
  if (ready == 0) return Error(Code::timeout, "no answer to the connection");
  return transport.connected(socket);
}

}  // namespace

Result<std::unique_ptr<TcpStoreClient>> TcpStoreClient::connect(Transport& transport,
                                                                const Endpoint& store,
                                                                Nanos timeout) {
  const Nanos deadline = transport.clock().now() + timeout;
  for (;;) {
    Error reason(Code::internal, "");
    Result<SocketId> socket = transport.connect(store);
    if (socket) {
      std::unique_ptr<TcpStoreClient> client(new TcpStoreClient(transport, *socket));
      Status up = finish_connect(transport, *socket, deadline);
      if (up) {
        std::string hello(1, static_cast<char>(TcpStoreOp::validate));
        hello.append(reinterpret_cast<const char*>(&kTcpStoreMagic), sizeof kTcpStoreMagic);
        hello += static_cast<char>(TcpStoreOp::ping);
        hello += "ping";
        MUSTER_TRY(client->send(hello));
        MUSTER_TRY(const std::string echo, client->receive(4, deadline));
        if (echo != "ping")
          return Error(Code::corrupt, store.to_string() + " does not speak the TCPStore protocol");
        return client;
      }
      reason = std::move(up).error();
    } else {
      reason = std::move(socket).error();
    }
    if (reason.code() != Code::peer_lost && reason.code() != Code::timeout) return reason;
    const Nanos next = transport.clock().now() + kRetryDelay;
    if (next >= deadline)
      return Error(Code::timeout,
                   fmt::format("no store answers at {} ({}); is the launcher running?",
                               store.to_string(), reason.message()));
    MUSTER_TRY(transport.wait({}, next));
  }
}

TcpStoreClient::~TcpStoreClient() {
  transport_.close(socket_);
}

Status TcpStoreClient::set(std::string_view key, std::string_view value) {
  std::string bytes = request(TcpStoreOp::set, key);
  put_text(bytes, value);
  return send(bytes);
}

Result<int64_t> TcpStoreClient::add(std::string_view key, int64_t delta) {
  std::string bytes = request(TcpStoreOp::add, key);
  put_u64(bytes, static_cast<uint64_t>(delta));
  MUSTER_TRY(send(bytes));
  MUSTER_TRY(const std::string answer, receive(8, transport_.clock().now() + kAnswerTime));
  return number_in<int64_t>(answer);
}

Result<std::string> TcpStoreClient::get(std::string_view key, Nanos timeout) {
  MUSTER_TRY(wait_for_key(key, timeout));
  MUSTER_TRY(send(request(TcpStoreOp::get, key)));
  const Nanos deadline = transport_.clock().now() + kAnswerTime;
  MUSTER_TRY(const std::string length, receive(8, deadline));
  if (number_in<uint64_t>(length) > kTcpStoreMaxValue)
    return Error(Code::corrupt, fmt::format("store: value of {} bytes under \"{}\"",
                                            number_in<uint64_t>(length), key));
  return receive(number_in<uint64_t>(length), deadline);
}

Status TcpStoreClient::wait_for_key(std::string_view key, Nanos timeout) {
  std::string bytes(1, static_cast<char>(TcpStoreOp::wait));
  put_u64(bytes, 1);
  bytes += request(TcpStoreOp::wait, key).substr(1);
  MUSTER_TRY(send(bytes));
  const Nanos deadline = transport_.clock().now() + timeout;
  Result<std::string> answer = receive(1, deadline);
  if (answer) return {};
  if (answer.error().code() != Code::timeout) return std::move(answer).error();
  // Take the request back. The answer may have crossed the cancellation: then it comes first.
  MUSTER_TRY(send(std::string(1, static_cast<char>(TcpStoreOp::cancel_wait))));
  for (;;) {
    MUSTER_TRY(const std::string byte, receive(1, transport_.clock().now() + kAnswerTime));
    if (byte[0] == 1) break;
  }
  return Error(Code::timeout,
               fmt::format("store: nobody set \"{}\" within {} ms", key,
                           std::chrono::duration_cast<std::chrono::milliseconds>(timeout).count()));
}

Status TcpStoreClient::send(std::string_view bytes) {
  const Nanos deadline = transport_.clock().now() + kAnswerTime;
  while (!bytes.empty()) {
    MUSTER_TRY(const std::optional<size_t> n,
               transport_.write(socket_, std::as_bytes(std::span(bytes.data(), bytes.size()))));
    if (n) {
      bytes.remove_prefix(*n);
      continue;
    }
    Transport::Poll poll{socket_, false, true};
    MUSTER_TRY(const int ready, transport_.wait({&poll, 1}, deadline));
    if (ready == 0) return Error(Code::timeout, "store: takes no more requests");
  }
  return {};
}

Result<std::string> TcpStoreClient::receive(size_t count, Nanos deadline) {
  std::string out(count, '\0');
  size_t have = 0;
  while (have < count) {
    MUSTER_TRY(const std::optional<size_t> n,
               transport_.read(socket_, std::as_writable_bytes(std::span(out).subspan(have))));
    if (n && *n == 0) return Error(Code::peer_lost, "store: the server closed the connection");
    if (n) {
      have += *n;
      continue;
    }
    Transport::Poll poll{socket_, true, false};
    MUSTER_TRY(const int ready, transport_.wait({&poll, 1}, deadline));
    if (ready == 0) return Error(Code::timeout, "store: no answer in time");
  }
  return out;
}

}  // namespace muster
