// Sockets as this system uses them: non-blocking, close-on-exec TCP on IPv4 and unix stream
// sockets, with errors as values. Thin functions over the system calls; the callers own the
// descriptors. RealTransport (real_transport.h) and servers on a Reactor (reactor.h) are built on
// them.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/result.h"
#include "sys/owned_fd.h"

namespace muster {

// Where a stream socket lives: "127.0.0.1:29500" or "unix:/run/x.sock".
struct Endpoint {
  enum class Kind { tcp, unix_path };

  Kind kind = Kind::tcp;
  std::string host;   // a name or IPv4 address; for unix_path the path
  uint16_t port = 0;  // 0 when listening = any free port

  static Endpoint tcp(std::string host, uint16_t port) {
    return {Kind::tcp, std::move(host), port};
  }
  static Endpoint unix_path(std::string path) { return {Kind::unix_path, std::move(path), 0}; }
  // Errors: invalid_argument names the text and the two forms.
  static Result<Endpoint> parse(std::string_view text);
  std::string to_string() const;
  bool operator==(const Endpoint&) const = default;
};

// Binds and listens. Errors: busy if the port or path is taken (the message names it).
Result<OwnedFd> listen_socket(const Endpoint& at, int backlog);
// The address a listener got (the port when 0 was asked for).
Result<Endpoint> local_endpoint(int fd);
// The next waiting connection, or nothing when none waits.
Result<std::optional<OwnedFd>> accept_socket(int listener);
// Begins a connection; it stands when the socket becomes writable and connect_error() is ok.
// Errors: not_found when the host has no IPv4 address.
Result<OwnedFd> connect_socket(const Endpoint& to);
// The outcome of a connection begun with connect_socket, once writable. Errors: peer_lost if
// refused.
Status connect_error(int fd);

// Bytes moved now; nothing = would block. read: 0 = the peer ended its stream. Errors: peer_lost
// for a reset, else io.
Result<std::optional<size_t>> read_some(int fd, std::span<std::byte> out);
Result<std::optional<size_t>> write_some(int fd, std::span<const std::byte> data);

}  // namespace muster
