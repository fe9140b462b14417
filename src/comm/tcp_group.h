// The TCP backend: the same collectives over a TcpMesh, for ranks that share no memory. Every rank
// receives its slice of all parts, sums it in the tree's order, and sends the result to all.
#pragma once

#include <memory>
#include <vector>

#include "base/ids.h"
#include "base/result.h"
#include "comm/communicator.h"
#include "net/transport.h"

namespace muster {

// `listener` (taken over), `addresses` and `token` as for TcpMesh::connect. `transport` must
// outlive the group.
Result<std::unique_ptr<Communicator>> join_tcp_group(Transport& transport, SocketId listener,
                                                     const std::vector<Endpoint>& addresses,
                                                     Rank rank, uint64_t token,
                                                     const GroupOptions& options);

}  // namespace muster
