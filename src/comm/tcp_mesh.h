// TcpMesh: one stream connection between every two ranks, and the one primitive that TCP
// collectives need: every rank sends a message to every other and receives theirs. Owns the
// sockets.
//
// A message is a header (the operation's fingerprint, the bytes that follow) and its payload.
// Sending and receiving go on together, so no order of ranks can block. A rank that ends the group
// says so in place of a message where the stream allows it, with whom it blames.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "base/ids.h"
#include "base/rank_set.h"
#include "base/result.h"
#include "comm/operation.h"
#include "net/transport.h"

namespace muster {

class TcpMesh {
 public:
  // What goes to one peer, in pieces, and where what it sends goes (its exact size).
  struct Message {
    std::vector<std::span<const std::byte>> send;
    std::vector<std::span<std::byte>> receive;
  };

  // `listener` is this rank's, `addresses` those of all ranks; `token` proves that a connection
  // belongs to this group. Takes the listener. Errors: timeout names the ranks that did not
  // connect.
  static Result<std::unique_ptr<TcpMesh>> connect(Transport& transport, SocketId listener,
                                                  const std::vector<Endpoint>& addresses, Rank rank,
                                                  uint64_t token, Nanos deadline);
  ~TcpMesh();
  TcpMesh(const TcpMesh&) = delete;
  TcpMesh& operator=(const TcpMesh&) = delete;

  // messages: [world]; this rank's own entry is ignored. Errors: timeout, peer_lost,
  // invalid_argument (a peer is in another operation), or what a peer ended the group with;
  // `missing` gets whom to blame.
  Status exchange(const Fingerprint& fingerprint, std::span<Message> messages, Nanos deadline,
                  RankSet& missing);

  // Makes a running exchange return cancelled, tells the peers why (no error = this rank just
  // leaves) and closes the streams. Any thread; the first call counts.
  void end(const Error* error, const RankSet& missing);

 private:
  struct Header;
  struct Peer;

  TcpMesh(Transport& transport, Rank rank, int world);
  Status make_wake_socket(Nanos deadline);
  Status begin(const Fingerprint& fingerprint, std::span<Message> messages, RankSet& missing);
  bool look_ahead(int peer);
  Status send_to(int peer, Message& message);
  Status receive_from(int peer, Message& message, const Fingerprint& fingerprint, RankSet& missing);
  Status read_header(int peer, RankSet& missing);
  Error peer_ended(int peer, RankSet& missing);
  Error lost(int peer, const Error& why, RankSet& missing);
  Error late(const Fingerprint& fingerprint, RankSet& missing) const;
  bool done(int peer) const;

  Transport& transport_;
  int me_;
  std::vector<Peer> peers_;
  SocketId wake_in_, wake_out_;  // a byte here interrupts a wait
  std::atomic<bool> ended_ = false;
  std::mutex running_;  // held by exchange
  std::vector<Transport::Poll> polls_;
  std::vector<int> polled_;
};

}  // namespace muster
