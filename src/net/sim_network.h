// SimNetwork: hosts that talk through memory, in virtual time, with faults. host(name) is that
// host's Transport; "127.0.0.1" and "localhost" mean the host itself, other names the named host.
//
// Time moves only when every participant (a thread that uses the network) waits: then the clock
// jumps to the next delivery or deadline. So a run depends on the code and the faults, never on the
// machine. With one participant it is a single-threaded simulation; N ranks as threads are N
// participants. Bytes are delivered in order, `delay` after they were written; a pipe holds
// kPipeBytes, then writes block.
//
// Safe from the participants' threads. The SimClock given must not be used elsewhere meanwhile:
// read time through clock().
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <utility>

#include "net/transport.h"

namespace muster {

class SimNetwork {
 public:
  static constexpr size_t kPipeBytes = 64 << 10;

  SimNetwork(SimClock& clock, int participants);
  ~SimNetwork();

  // Lives as long as the network.
  Transport& host(const std::string& name);
  const Clock& clock() const { return locked_clock_; }
  // A participant that ends (its thread returns) must say so, or time stops for the others.
  void leave();

  // Faults. They act on what is sent from now on.
  void set_delay(Nanos delay);
  // Between the two hosts nothing arrives, and connections wait, until healed.
  void partition(const std::string& a, const std::string& b, bool on);
  // Every connection of the host breaks at once: both ends see a reset.
  void reset(const std::string& host_name);

 private:
  class Host;
  class LockedClock final : public Clock {
   public:
    explicit LockedClock(SimNetwork& network) : network_(network) {}
    Nanos now() const override;
    Nanos wall() const override;
    void sleep_until(Nanos deadline) override;

   private:
    SimNetwork& network_;
  };
  struct Chunk {
    Nanos due;
    std::string bytes;
    bool end = false;  // nothing follows
  };
  struct Socket {
    std::string host, peer_host;
    int peer = -1;  // -1 also after the peer closed
    std::optional<Endpoint> listening;
    std::deque<int> backlog;
    Nanos ready_at{0};  // when the connection stands, or is refused
    bool refused = false;
    bool broken = false;  // reset
    bool ended = false;   // shut down here
    std::deque<Chunk> inbound;
    size_t inbound_bytes = 0;
  };

  // The rest runs with the lock held.
  Socket& at(SocketId id);
  Socket* peer_of(const Socket& socket);
  bool cut(const std::string& a, const std::string& b) const;
  Nanos arrival(const Socket& socket, int trips) const;
  bool readable(const Socket& socket) const;
  bool writable(const Socket& socket);
  Nanos next_event(const Socket& socket) const;
  Result<SocketId> connect(const std::string& from, const Endpoint& to);
  Result<std::optional<size_t>> read(Socket& socket, std::span<std::byte> out);
  Result<std::optional<size_t>> write(Socket& socket, std::span<const std::byte> data);
  void shut(Socket& socket);
  int look(std::span<Transport::Poll> sockets);
  void changed();
  void jump_if_all_wait();
  // Waits for a change or for time to reach `want`, letting time move when everybody waits.
  void wait_until(std::unique_lock<std::mutex>& lock, Nanos want);

  mutable std::mutex mutex_;
  std::condition_variable condition_;
  SimClock& clock_;
  LockedClock locked_clock_;
  int participants_;
  int waiting_ = 0;        // since the last change
  uint64_t changes_ = 0;   // grows with whatever may make somebody ready
  Nanos earliest_wanted_;  // by those waiting
  Nanos delay_{0};
  std::set<std::pair<std::string, std::string>> cuts_;
  std::map<std::string, std::unique_ptr<Host>> hosts_;
  std::map<int, Socket> sockets_;
  int next_socket_ = 0;
  uint16_t next_port_ = 40000;
};

}  // namespace muster
