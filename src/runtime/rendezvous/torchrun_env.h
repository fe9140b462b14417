// The environment a worker gets, exactly as torchrun 2.13 sets it: a pure function of the job and
// the rank. `muster run` and `muster torchrun` both give it; what differs is in the job given here.
//
// Worker environment = the launcher's own, overlaid with these variables; nothing is removed.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "base/ids.h"

namespace muster {

// Name -> value, as in environ(7).
using Environment = std::map<std::string, std::string, std::less<>>;

// What all workers of one attempt share.
struct TorchrunJob {
  int32_t nodes = 1;
  int32_t node_rank = 0;
  std::vector<int32_t>
      local_world_sizes;  // of every node, [nodes]; ranks count through them in order
  std::string role = "default";
  std::string master_address = "localhost";
  uint16_t master_port = 0;  // of the store, which is served before the first worker starts
  int32_t restart_count = 0;
  int32_t max_restarts = 0;
  std::string run_id = "none";
  // "" = no error files (--log-dir /dev/null); else <attempt_dir>/<local rank>/error.json.
  std::string attempt_dir;
  std::vector<std::string> signals_to_handle = {"SIGTERM", "SIGINT", "SIGHUP", "SIGQUIT"};
  bool virtual_local_rank = false;
};

// The launcher's environment with the worker's variables set. `local_rank` is on this node.
Environment worker_environment(const TorchrunJob& job, int32_t local_rank,
                               const Environment& inherited);

// Whether worker_environment sets OMP_NUM_THREADS=1 (the user deserves a warning then).
bool defaults_omp_threads(const TorchrunJob& job, const Environment& inherited);

// Sum of the local world sizes of all nodes, and of the nodes before this one.
int32_t world_size(const TorchrunJob& job);
int32_t first_rank(const TorchrunJob& job);

// The device list that stands in CUDA_VISIBLE_DEVICES for `local_rank` with --virtual-local-rank:
// the n-th entry of the inherited list, else the local rank.
std::string device_of(int32_t local_rank, const Environment& inherited);

// Replaces ${local_rank} in every argument, as torchrun does.
std::vector<std::string> substitute_local_rank(const std::vector<std::string>& arguments,
                                               int32_t local_rank);

}  // namespace muster
