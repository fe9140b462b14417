#include "net/real_transport.h"

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <ctime>
#include <vector>

namespace muster {
namespace {
constexpr int kBacklog = 1024;
}

Result<SocketId> RealTransport::listen(const Endpoint& at) {
  MUSTER_TRY(OwnedFd fd, listen_socket(at, kBacklog));
  return SocketId{fd.release()};
}

Result<Endpoint> RealTransport::local(SocketId socket) {
  return local_endpoint(socket.value);
}

Result<std::optional<SocketId>> RealTransport::accept(SocketId listener) {
  MUSTER_TRY(std::optional<OwnedFd> fd, accept_socket(listener.value));
  if (!fd) return std::optional<SocketId>();
  return std::optional<SocketId>(SocketId{fd->release()});
}

Result<SocketId> RealTransport::connect(const Endpoint& to) {
  MUSTER_TRY(OwnedFd fd, connect_socket(to));
  return SocketId{fd.release()};
}

Status RealTransport::connected(SocketId socket) {
  return connect_error(socket.value);
}

Result<std::optional<size_t>> RealTransport::read(SocketId socket, std::span<std::byte> out) {
  return read_some(socket.value, out);
}

Result<std::optional<size_t>> RealTransport::write(SocketId socket,
                                                   std::span<const std::byte> data) {
  return write_some(socket.value, data);
}

void RealTransport::shutdown(SocketId socket) {
  ::shutdown(socket.value, SHUT_RDWR);
}

void RealTransport::close(SocketId socket) {
  if (socket.valid()) ::close(socket.value);
}

Result<int> RealTransport::wait(std::span<Poll> sockets, Nanos deadline) {
  // Reused: waiting is on the path of every collective.
  thread_local std::vector<pollfd> fds;
  fds.clear();
  for (const Poll& p : sockets)
    fds.push_back(
        {p.socket.value, static_cast<short>((p.read ? POLLIN : 0) | (p.write ? POLLOUT : 0)), 0});
  for (;;) {
    const Nanos left = std::max(deadline - clock_.now(), Nanos{0});
    const timespec timeout{static_cast<time_t>(left.count() / 1'000'000'000),
                           static_cast<long>(left.count() % 1'000'000'000)};
    const int ready = ::ppoll(fds.data(), fds.size(), &timeout, nullptr);
    if (ready < 0 && errno == EINTR) continue;
    if (ready < 0) return errno_error(errno, "wait for sockets");
    for (size_t i = 0; i < sockets.size(); ++i) {
      const bool broken = (fds[i].revents & (POLLERR | POLLHUP | POLLNVAL)) != 0;
      sockets[i].readable = broken || (fds[i].revents & POLLIN) != 0;
      sockets[i].writable = broken || (fds[i].revents & POLLOUT) != 0;
    }
    return ready;
  }
}

}  // namespace muster
