// TcpStore: the key-value store of torch.distributed's TCPStore protocol as a pure state machine:
// bytes of a connection in, bytes for connections out. Owns: keys, queues, waiters, and per
// connection the unfinished request.
//
// Invariants:
//  - answers of a connection leave in the order of its requests;
//  - any segmentation of the same bytes gives the same answers;
//  - what one connection sends can end that connection only;
//  - a connection has at most one pending WAIT or BARRIER; CANCEL_WAIT is answered by exactly one 1
//    and nothing follows it for the cancelled request.
// Keys are opaque bytes. Nothing is durable. Protocol: little-endian, u8 opcode, i64/u64 numbers,
// u64-length strings, no message length (torch 2.13).
//
// While a request waits, the connection's next requests stay unanswered, in order; those without an
// answer (SET, APPEND, ...) and CANCEL_WAIT are handled at once.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "runtime/rendezvous/tcp_store_request.h"

namespace muster {

class TcpStore {
 public:
  using ConnectionId = uint64_t;

  struct Effects {
    std::vector<std::pair<ConnectionId, std::string>> send;    // in order
    std::vector<std::pair<ConnectionId, std::string>> closed;  // and why
  };

  ConnectionId open();
  // Handles `bytes` from a connection. The connections in `closed` are forgotten already.
  void receive(ConnectionId connection, std::span<const std::byte> bytes, Effects& effects);
  // The connection ended: its pending request is forgotten, its keys and arrivals stay.
  void close(ConnectionId connection);
  // Empties the key space and forgets every connection.
  void clear();

  size_t keys() const { return values_.size(); }
  size_t connections() const { return connections_.size(); }
  const std::string* find(std::string_view key) const;

 private:
  enum class Pending { none, wait, barrier };
  struct Connection {
    TcpStoreRequestParser parser;
    bool validated = false;
    Pending pending = Pending::none;
    std::vector<std::string> missing;  // keys a WAIT still needs, or the key of a BARRIER
  };
  using Waiters = std::map<std::string, std::deque<ConnectionId>, std::less<>>;

  // Handles what a connection has sent so far. An error closes it.
  Status handle_buffered(ConnectionId id, Connection& connection, Effects& effects);
  Status handle(ConnectionId id, Connection& connection, const TcpStoreRequest& request,
                Effects& effects);
  Status handle_value_request(ConnectionId id, const TcpStoreRequest& request, Effects& effects);
  Status handle_add(ConnectionId id, const TcpStoreRequest& request, Effects& effects);
  void handle_compare_set(ConnectionId id, const TcpStoreRequest& request, Effects& effects);
  void handle_wait(ConnectionId id, Connection& connection, const TcpStoreRequest& request,
                   Effects& effects);
  Status handle_barrier(ConnectionId id, Connection& connection, const TcpStoreRequest& request,
                        Effects& effects);
  void handle_queue_pop(ConnectionId id, const TcpStoreRequest& request, Effects& effects);

  bool present(std::string_view key) const;
  size_t queue_length(std::string_view key) const;
  void set(std::string_view key, std::string_view value, Effects& effects);
  // `key` is there now: tells at most `most` of those that wait for it, first come first.
  void wake(std::string_view key, size_t most, Effects& effects);
  void finish_pending(ConnectionId id, Connection& connection, Effects& effects);
  void forget_pending(ConnectionId id, Connection& connection);

  ConnectionId next_connection_ = 1;
  std::unordered_map<ConnectionId, Connection> connections_;
  std::map<std::string, std::string, std::less<>> values_;
  std::map<std::string, std::deque<std::string>, std::less<>> queues_;
  Waiters key_waiters_;                 // WAIT
  Waiters barrier_waiters_;             // BARRIER
  std::vector<ConnectionId> finished_;  // pending requests that ended; more may be buffered behind
};

}  // namespace muster
