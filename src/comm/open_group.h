// Opens the group that all ranks of a job form, from what the launcher gave.
//
// Under any launcher with torchrun's environment (muster, torchrun, srun with the variables set)
// the ranks meet in the store at MASTER_ADDR:MASTER_PORT; those on one host share memory, else TCP
// carries everything. Without WORLD_SIZE: a group of one.
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

// MUSTER_COMM_BACKEND=shm|tcp forces a backend. Errors: invalid_argument names the variable.
Result<std::unique_ptr<Communicator>> open_group(const Environment& environment,
                                                 Transport& transport, Random& random,
                                                 const GroupOptions& options);

}  // namespace muster
