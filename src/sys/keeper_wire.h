// The messages between a supervisor, its keeper and a template process: one packet each on a
// SOCK_SEQPACKET pair, descriptors beside it. Little more than a byte cursor; both ends are the
// same build, so there is no version.
//
// Strings carry a terminating zero, so that a receiver can hand them to exec without a copy. A body
// above kInlineBytes travels in a memfd, the last descriptor of the packet.
#pragma once

#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "sys/owned_fd.h"
#include "sys/spawner.h"

namespace muster {

enum class KeeperVerb : uint32_t {
  // to the keeper
  spawn = 1,  // id, SpawnBody
  spawn_template,
  signal,     // id, i64 number, i64 scope
  kill_tree,  // id
  kill_all,
  finish,
  // from the keeper
  started,       // id, i64 pid, i64 when; pidfd
  start_failed,  // id, i64 errno, string text
  exited,        // id, i64 pid, code, signal, core, user, system, max_rss, when
  swept,         // string text
  // between keeper and template
  template_ready,   // from the template: string "" or why it cannot fork
  template_fork,    // to the template: id, i64 keeper pid, SpawnBody
  template_forked,  // from the template: id, i64 pid, i64 errno, string text
};

class WireWriter {
 public:
  WireWriter(KeeperVerb verb, uint64_t id) {
    number(static_cast<int64_t>(verb));
    number(static_cast<int64_t>(id));
  }
  void number(int64_t value) { append(&value, sizeof value); }
  void text(std::string_view value) {
    number(static_cast<int64_t>(value.size()));
    append(value.data(), value.size());
    bytes_.push_back('\0');
  }
  void texts(const std::vector<std::string>& values) {
    number(static_cast<int64_t>(values.size()));
    for (const std::string& value : values) text(value);
  }
  std::span<const char> bytes() const { return bytes_; }

 private:
  void append(const void* data, size_t size) {
    bytes_.append(static_cast<const char*>(data), size);
  }
  std::string bytes_;
};

// Reads what WireWriter wrote; a body that ends early is a bug of the other end.
class WireReader {
 public:
  explicit WireReader(std::span<char> bytes) : at_(bytes.data()), end_(at_ + bytes.size()) {}
  int64_t number() {
    int64_t value;
    std::memcpy(&value, take(sizeof value), sizeof value);
    return value;
  }
  // Points into the packet; zero-terminated.
  char* text() {
    const size_t size = static_cast<size_t>(number());
    return take(size + 1);
  }
  std::vector<char*> texts() {
    std::vector<char*> values(static_cast<size_t>(number()));
    for (char*& value : values) value = text();
    return values;
  }

 private:
  char* take(size_t size) {
    MUSTER_CHECK(static_cast<size_t>(end_ - at_) >= size, size);
    char* here = at_;
    at_ += size;
    return here;
  }
  char* at_;
  char* end_;
};

// A received packet; owns its descriptors.
struct WirePacket {
  std::vector<char> bytes;
  std::vector<OwnedFd> fds;
};

inline constexpr size_t kInlineBytes = 96 << 10;

// The descriptors of a SpawnSpec in packet order (those that are not -1), and which they are.
void write_spawn_body(WireWriter& out, const SpawnSpec& spec, std::vector<int>& fds);
// Reads it back; pointers point into the packet, argv and environment are null-terminated lists.
struct SpawnBody {
  std::vector<char*> argv;
  std::vector<char*> environment;
  char* directory = nullptr;
  int stdio[3] = {-1, -1, -1};  // owned by the packet
  std::vector<int> extra;
};
SpawnBody read_spawn_body(WireReader& in, const WirePacket& packet);

// Returns 0 or errno (EAGAIN with a full socket and `wait` false).
int send_packet(int socket, const WireWriter& message, std::span<const int> fds, bool wait);
// 1: got one; 0: the other end is closed; -1: errno (EAGAIN when empty and `wait` false).
int receive_packet(int socket, WirePacket& packet, bool wait);

}  // namespace muster
