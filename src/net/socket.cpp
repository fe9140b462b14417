#include "net/socket.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cstring>

namespace muster {
namespace {

struct Address {
  sockaddr_storage storage{};
  socklen_t length = 0;
  int family = AF_UNSPEC;
};

Result<Address> unix_address(const std::string& path) {
  Address address;
  auto* name = reinterpret_cast<sockaddr_un*>(&address.storage);
  if (path.empty() || path.size() >= sizeof name->sun_path)
    return Error(Code::invalid_argument,
                 fmt::format("unix socket path \"{}\" has {} bytes; 1 to {} are possible", path,
                             path.size(), sizeof name->sun_path - 1));
  name->sun_family = AF_UNIX;
  std::memcpy(name->sun_path, path.data(), path.size());
  address.length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + path.size() + 1);
  address.family = AF_UNIX;
  return address;
}

Result<Address> tcp_address(const std::string& host, uint16_t port) {
  Address address;
  auto* name = reinterpret_cast<sockaddr_in*>(&address.storage);
  address.length = sizeof *name;
  address.family = AF_INET;
  if (inet_pton(AF_INET, host.c_str(), &name->sin_addr) != 1) {
    addrinfo hints{};
    hints.ai_family = AF_INET;
    hints.ai_socktype = SOCK_STREAM;
    addrinfo* found = nullptr;
    const int failure = getaddrinfo(host.c_str(), nullptr, &hints, &found);
    if (failure != 0)
      return Error(Code::not_found,
                   fmt::format("host \"{}\" has no IPv4 address: {}", host, gai_strerror(failure)));
    std::memcpy(name, found->ai_addr, sizeof *name);
    freeaddrinfo(found);
  }
  name->sin_family = AF_INET;
  name->sin_port = htons(port);
  return address;
}

Result<Address> address_of(const Endpoint& at) {
  return at.kind == Endpoint::Kind::tcp ? tcp_address(at.host, at.port) : unix_address(at.host);
}

Result<OwnedFd> new_socket(int family) {
  OwnedFd fd(::socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!fd.valid()) return errno_error(errno, "open a socket");
  return fd;
}

// Small messages leave at once. Not an error on unix sockets, which have no such delay.
void set_no_delay(int fd) {
  const int on = 1;
  ::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
}

Error moved_error(int errno_value, const char* doing) {
  if (errno_value == ECONNRESET || errno_value == EPIPE || errno_value == ETIMEDOUT ||
      errno_value == ENOTCONN)
    return Error(Code::peer_lost, fmt::format("{}: {}", doing, std::strerror(errno_value)));
  return errno_error(errno_value, doing);
}

}  // namespace

Result<Endpoint> Endpoint::parse(std::string_view text) {
  if (text.starts_with("unix:") && text.size() > 5) return unix_path(std::string(text.substr(5)));
  const size_t colon = text.rfind(':');
  if (colon != std::string_view::npos && colon > 0) {
    const std::string_view digits = text.substr(colon + 1);
    uint16_t port = 0;
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), port);
    if (error == std::errc() && end == digits.data() + digits.size())
      return tcp(std::string(text.substr(0, colon)), port);
  }
  return Error(Code::invalid_argument,
               fmt::format("\"{}\" is no address; write HOST:PORT or unix:PATH", text));
}

std::string Endpoint::to_string() const {
  return kind == Kind::tcp ? fmt::format("{}:{}", host, port) : "unix:" + host;
}

Result<OwnedFd> listen_socket(const Endpoint& at, int backlog) {
  MUSTER_TRY(const Address address, address_of(at));
  MUSTER_TRY(OwnedFd fd, new_socket(address.family));
  if (at.kind == Endpoint::Kind::tcp) {
    const int on = 1;
    ::setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  }
  if (::bind(fd.get(), reinterpret_cast<const sockaddr*>(&address.storage), address.length) != 0 ||
      ::listen(fd.get(), backlog) != 0) {
    if (errno == EADDRINUSE)
      return Error(Code::busy, fmt::format("{} is in use by another process; choose another or "
                                           "leave it out for a free one",
                                           at.to_string()));
    return errno_error(errno, "listen on " + at.to_string());
  }
  return fd;
}

Result<Endpoint> local_endpoint(int fd) {
  Address address;
  address.length = sizeof address.storage;
  if (::getsockname(fd, reinterpret_cast<sockaddr*>(&address.storage), &address.length) != 0)
    return errno_error(errno, "read a socket's address");
  if (address.storage.ss_family == AF_UNIX)
    return Endpoint::unix_path(reinterpret_cast<const sockaddr_un*>(&address.storage)->sun_path);
  if (address.storage.ss_family != AF_INET)
    return Error(Code::unsupported,
                 fmt::format("socket family {}; IPv4 and unix sockets are supported",
                             address.storage.ss_family));
  const auto* name = reinterpret_cast<const sockaddr_in*>(&address.storage);
  char text[INET_ADDRSTRLEN] = {};
  inet_ntop(AF_INET, &name->sin_addr, text, sizeof text);
  return Endpoint::tcp(text, ntohs(name->sin_port));
}

Result<std::optional<OwnedFd>> accept_socket(int listener) {
  for (;;) {
    OwnedFd fd(::accept4(listener, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (fd.valid()) {
      set_no_delay(fd.get());
      return std::optional<OwnedFd>(std::move(fd));
    }
    // A connection that ended while it waited is not the listener's failure.
    if (errno == EINTR || errno == ECONNABORTED) continue;
    if (errno == EAGAIN || errno == EWOULDBLOCK) return std::optional<OwnedFd>();
    return errno_error(errno, "accept a connection");
  }
}

Result<OwnedFd> connect_socket(const Endpoint& to) {
  MUSTER_TRY(const Address address, address_of(to));
  MUSTER_TRY(OwnedFd fd, new_socket(address.family));
  if (address.family == AF_INET) set_no_delay(fd.get());
  if (::connect(fd.get(), reinterpret_cast<const sockaddr*>(&address.storage), address.length) !=
          0 &&
      errno != EINPROGRESS && errno != EINTR) {
    if (errno == ECONNREFUSED || errno == ENOENT || errno == EAGAIN)
      return Error(Code::peer_lost,
                   fmt::format("connect to {}: {}", to.to_string(), std::strerror(errno)));
    return errno_error(errno, "connect to " + to.to_string());
  }
  return fd;
}

Status connect_error(int fd) {
  int value = 0;
  socklen_t length = sizeof value;
  if (::getsockopt(fd, SOL_SOCKET, SO_ERROR, &value, &length) != 0)
    return errno_error(errno, "read a socket's state");
  if (value == 0) return {};
  return Error(Code::peer_lost, fmt::format("connect: {}", std::strerror(value)));
}

Result<std::optional<size_t>> read_some(int fd, std::span<std::byte> out) {
  for (;;) {
    const ssize_t n = ::recv(fd, out.data(), out.size(), 0);
    if (n >= 0) return std::optional<size_t>(static_cast<size_t>(n));
    if (errno == EINTR) continue;
    if (errno == EAGAIN || errno == EWOULDBLOCK) return std::optional<size_t>();
    return moved_error(errno, "read from a socket");
  }
}

Result<std::optional<size_t>> write_some(int fd, std::span<const std::byte> data) {
  for (;;) {
    const ssize_t n = ::send(fd, data.data(), data.size(), MSG_NOSIGNAL);
    if (n >= 0) return std::optional<size_t>(static_cast<size_t>(n));
    if (errno == EINTR) continue;
    if (errno == EAGAIN || errno == EWOULDBLOCK) return std::optional<size_t>();
    return moved_error(errno, "write to a socket");
  }
}

}  // namespace muster
