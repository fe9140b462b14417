#include "runtime/rendezvous/torchrun_env.h"

#include <fmt/format.h>

#include <numeric>

#include "base/check.h"

namespace muster {
namespace {

int32_t local_world_size(const TorchrunJob& job) {
  return job.local_world_sizes[static_cast<size_t>(job.node_rank)];
}

void check_job(const TorchrunJob& job) {
  MUSTER_CHECK(job.nodes >= 1 && job.local_world_sizes.size() == static_cast<size_t>(job.nodes),
               job.nodes, job.local_world_sizes.size());
  MUSTER_CHECK(job.node_rank >= 0 && job.node_rank < job.nodes, job.node_rank, job.nodes);
}

std::string joined(const std::vector<std::string>& parts) {
  std::string out;
  for (const std::string& part : parts) out += (out.empty() ? "" : ",") + part;
  return out;
}

}  // namespace

int32_t world_size(const TorchrunJob& job) {
  return std::accumulate(job.local_world_sizes.begin(), job.local_world_sizes.end(), 0);
}

int32_t first_rank(const TorchrunJob& job) {
  check_job(job);
  return std::accumulate(job.local_world_sizes.begin(),
                         job.local_world_sizes.begin() + job.node_rank, 0);
}

bool defaults_omp_threads(const TorchrunJob& job, const Environment& inherited) {
  return local_world_size(job) > 1 && !inherited.contains("OMP_NUM_THREADS");
}

std::string device_of(int32_t local_rank, const Environment& inherited) {
  const auto it = inherited.find("CUDA_VISIBLE_DEVICES");
  if (it == inherited.end()) return std::to_string(local_rank);
  std::string_view list = it->second;
  for (int32_t i = 0;; ++i) {
    const size_t comma = list.find(',');
    if (i == local_rank && !list.empty()) return std::string(list.substr(0, comma));
    if (comma == std::string_view::npos) return std::to_string(local_rank);
    list.remove_prefix(comma + 1);
  }
}

Environment worker_environment(const TorchrunJob& job, int32_t local_rank,
                               const Environment& inherited) {
  check_job(job);
  MUSTER_CHECK(local_rank >= 0 && local_rank < local_world_size(job), local_rank,
               local_world_size(job));
  const std::string rank = std::to_string(first_rank(job) + local_rank);
  const std::string world = std::to_string(world_size(job));
  const std::string error_file =
      job.attempt_dir.empty() ? "" : fmt::format("{}/{}/error.json", job.attempt_dir, local_rank);

  Environment env = inherited;
  env["RANK"] = rank;
  env["LOCAL_RANK"] = job.virtual_local_rank ? "0" : std::to_string(local_rank);
  env["WORLD_SIZE"] = world;
  env["LOCAL_WORLD_SIZE"] = std::to_string(local_world_size(job));
  env["GROUP_RANK"] = std::to_string(job.node_rank);
  env["GROUP_WORLD_SIZE"] = std::to_string(job.nodes);
  env["ROLE_NAME"] = job.role;
  // One role per job here, so its ranks are the job's.
  env["ROLE_RANK"] = rank;
  env["ROLE_WORLD_SIZE"] = world;
  env["MASTER_ADDR"] = job.master_address;
  env["MASTER_PORT"] = std::to_string(job.master_port);
  env["TORCHELASTIC_RESTART_COUNT"] = std::to_string(job.restart_count);
  env["TORCHELASTIC_MAX_RESTARTS"] = std::to_string(job.max_restarts);
  env["TORCHELASTIC_RUN_ID"] = job.run_id;
  env["TORCHELASTIC_USE_AGENT_STORE"] = "True";  // Python's bool as text; nothing else counts
  env.try_emplace("TORCH_NCCL_ASYNC_ERROR_HANDLING", "1");
  env["TORCHELASTIC_ERROR_FILE"] = error_file;
  env["TORCHELASTIC_SIGNALS_TO_HANDLE"] = joined(job.signals_to_handle);
  if (defaults_omp_threads(job, inherited)) env["OMP_NUM_THREADS"] = "1";
  if (job.virtual_local_rank) env["CUDA_VISIBLE_DEVICES"] = device_of(local_rank, inherited);
  return env;
}

std::vector<std::string> substitute_local_rank(const std::vector<std::string>& arguments,
                                               int32_t local_rank) {
  constexpr std::string_view kMacro = "${local_rank}";
  const std::string value = std::to_string(local_rank);
  std::vector<std::string> out = arguments;
  for (std::string& argument : out)
    for (size_t at = argument.find(kMacro); at != std::string::npos;
         at = argument.find(kMacro, at + value.size()))
      argument.replace(at, kMacro.size(), value);
  return out;
}

}  // namespace muster
