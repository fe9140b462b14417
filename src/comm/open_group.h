// Opens the group that all ranks of a job form, from what the launcher gave.
//
// Under muster: MUSTER_COMM_FD is an inherited, empty memfd, one per attempt, and RANK and
// WORLD_SIZE say who this is; the ranks map it and need nobody else. Under any launcher with
// torchrun's environment (torchrun, srun with the variables set): the ranks meet in the store at
// MASTER_ADDR:MASTER_PORT; those on one host share memory, else TCP carries everything. Without
// WORLD_SIZE: a group of one.
#pragma once

#include <memory>
#include <string>

#include "base/clock.h"
#include "base/random.h"
#include "base/result.h"
#include "comm/communicator.h"
#include "net/transport.h"
#include "runtime/rendezvous/torchrun_env.h"

namespace muster {

// The memfd for MUSTER_COMM_FD, for the launcher: without close-on-exec, to be closed by the
// launcher once all ranks have started. A new one for every attempt.
Result<int> create_comm_fd();
inline constexpr const char* kCommFdVariable = "MUSTER_COMM_FD";

// MUSTER_COMM_BACKEND=shm|tcp forces a backend. Errors: invalid_argument names the variable.
Result<std::unique_ptr<Communicator>> open_group(const Environment& environment,
                                                 Transport& transport, Random& random,
                                                 const GroupOptions& options);

}  // namespace muster
