#include "sys/keeper_wire.h"

#include <sys/mman.h>
#include <sys/socket.h>

#include <cerrno>

namespace muster {
namespace {

constexpr size_t kMaxFds = 32;

// Where the body is: in the packet or in a memfd of so many bytes.
struct Prefix {
  int64_t memfd_bytes;
};

}  // namespace

void write_spawn_body(WireWriter& out, const SpawnSpec& spec, std::vector<int>& fds) {
  out.texts(spec.argv);
  out.texts(spec.environment);
  out.text(spec.directory);
  for (int fd : {spec.stdin_fd, spec.stdout_fd, spec.stderr_fd}) {
    out.number(fd >= 0 ? static_cast<int64_t>(fds.size()) : -1);
    if (fd >= 0) fds.push_back(fd);
  }
  out.number(static_cast<int64_t>(spec.extra_fds.size()));
  for (int fd : spec.extra_fds) {
    out.number(static_cast<int64_t>(fds.size()));
    fds.push_back(fd);
  }
}

SpawnBody read_spawn_body(WireReader& in, const WirePacket& packet) {
  const auto fd_at = [&](int64_t index) {
    if (index < 0) return -1;
    MUSTER_CHECK(static_cast<size_t>(index) < packet.fds.size(), index, packet.fds.size());
    return packet.fds[static_cast<size_t>(index)].get();
  };
  SpawnBody body;
  body.argv = in.texts();
  body.argv.push_back(nullptr);
  body.environment = in.texts();
  body.environment.push_back(nullptr);
  body.directory = in.text();
  for (int& fd : body.stdio) fd = fd_at(in.number());
  body.extra.resize(static_cast<size_t>(in.number()));
  for (int& fd : body.extra) fd = fd_at(in.number());
  return body;
}

int send_packet(int socket, const WireWriter& message, std::span<const int> fds, bool wait) {
  const std::span<const char> body = message.bytes();
  std::vector<int> passed(fds.begin(), fds.end());
  OwnedFd memfd;
  Prefix prefix{0};
  if (body.size() > kInlineBytes) {
    memfd.reset(memfd_create("muster-message", MFD_CLOEXEC));
    if (!memfd) return errno;
    for (size_t done = 0; done < body.size();) {
      const ssize_t n = write(memfd.get(), body.data() + done, body.size() - done);
      if (n < 0) return errno;
      done += static_cast<size_t>(n);
    }
    prefix.memfd_bytes = static_cast<int64_t>(body.size());
    passed.push_back(memfd.get());
  }
  MUSTER_CHECK(passed.size() <= kMaxFds, passed.size());
  iovec parts[2] = {{&prefix, sizeof prefix},
                    {const_cast<char*>(body.data()), memfd ? size_t{0} : body.size()}};
  alignas(cmsghdr) char control[CMSG_SPACE(kMaxFds * sizeof(int))];
  msghdr header{};
  header.msg_iov = parts;
  header.msg_iovlen = 2;
  if (!passed.empty()) {
    header.msg_control = control;
    header.msg_controllen = CMSG_SPACE(passed.size() * sizeof(int));
    cmsghdr* first = CMSG_FIRSTHDR(&header);
    first->cmsg_level = SOL_SOCKET;
    first->cmsg_type = SCM_RIGHTS;
    first->cmsg_len = CMSG_LEN(passed.size() * sizeof(int));
    std::memcpy(CMSG_DATA(first), passed.data(), passed.size() * sizeof(int));
  }
  for (;;) {
    if (sendmsg(socket, &header, MSG_NOSIGNAL | (wait ? 0 : MSG_DONTWAIT)) >= 0) return 0;
    if (errno != EINTR) return errno;
  }
}

int receive_packet(int socket, WirePacket& packet, bool wait) {
  packet.fds.clear();
  packet.bytes.resize(kInlineBytes);
  Prefix prefix{0};
  iovec parts[2] = {{&prefix, sizeof prefix}, {packet.bytes.data(), packet.bytes.size()}};
  alignas(cmsghdr) char control[CMSG_SPACE(kMaxFds * sizeof(int))];
  msghdr header{};
  header.msg_iov = parts;
  header.msg_iovlen = 2;
  header.msg_control = control;
  header.msg_controllen = sizeof control;
  ssize_t got;
  do {
    got = recvmsg(socket, &header, MSG_CMSG_CLOEXEC | (wait ? 0 : MSG_DONTWAIT));
  } while (got < 0 && errno == EINTR);
  if (got < 0) return errno == ECONNRESET ? 0 : -1;
  if (got == 0) return 0;
  for (cmsghdr* c = CMSG_FIRSTHDR(&header); c != nullptr; c = CMSG_NXTHDR(&header, c)) {
    if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS) continue;
    const size_t count = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (size_t i = 0; i < count; ++i) {
      int fd;
      std::memcpy(&fd, CMSG_DATA(c) + i * sizeof fd, sizeof fd);
      packet.fds.emplace_back(fd);
    }
  }
  MUSTER_CHECK((header.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) == 0, header.msg_flags);
  if (prefix.memfd_bytes == 0) {
    packet.bytes.resize(static_cast<size_t>(got) - sizeof prefix);
    return 1;
  }
  packet.bytes.resize(static_cast<size_t>(prefix.memfd_bytes));
  MUSTER_CHECK(!packet.fds.empty());
  for (size_t done = 0; done < packet.bytes.size();) {
    const ssize_t n = pread(packet.fds.back().get(), packet.bytes.data() + done,
                            packet.bytes.size() - done, static_cast<off_t>(done));
    MUSTER_CHECK(n > 0, n, errno);
    done += static_cast<size_t>(n);
  }
  packet.fds.pop_back();
  return 1;
}

}  // namespace muster
