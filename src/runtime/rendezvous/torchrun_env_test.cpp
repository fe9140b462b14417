#include "runtime/rendezvous/torchrun_env.h"

#include <gtest/gtest.h>

namespace muster {
namespace {

TorchrunJob two_workers() {
  TorchrunJob job;
  job.local_world_sizes = {2};
  job.master_port = 4242;
  job.max_restarts = 3;
  job.run_id = "run-1";
  job.attempt_dir = "/logs/run-1_x/attempt_0";
  return job;
}

TEST(TorchrunEnv, AWorkerGetsExactlyTorchrunsVariablesOnTopOfTheLaunchers) {
  const Environment inherited = {{"PATH", "/bin"}, {"RANK", "77"}, {"PET_NNODES", "1"}};
  const Environment want = {
      {"PATH", "/bin"},
      {"PET_NNODES", "1"},
      {"RANK", "1"},
      {"LOCAL_RANK", "1"},
      {"WORLD_SIZE", "2"},
      {"LOCAL_WORLD_SIZE", "2"},
      {"GROUP_RANK", "0"},
      {"GROUP_WORLD_SIZE", "1"},
      {"ROLE_NAME", "default"},
      {"ROLE_RANK", "1"},
      {"ROLE_WORLD_SIZE", "2"},
      {"MASTER_ADDR", "localhost"},
      {"MASTER_PORT", "4242"},
      {"TORCHELASTIC_RESTART_COUNT", "0"},
      {"TORCHELASTIC_MAX_RESTARTS", "3"},
      {"TORCHELASTIC_RUN_ID", "run-1"},
      {"TORCHELASTIC_USE_AGENT_STORE", "True"},
      {"TORCH_NCCL_ASYNC_ERROR_HANDLING", "1"},
      {"TORCHELASTIC_ERROR_FILE", "/logs/run-1_x/attempt_0/1/error.json"},
      {"TORCHELASTIC_SIGNALS_TO_HANDLE", "SIGTERM,SIGINT,SIGHUP,SIGQUIT"},
      {"OMP_NUM_THREADS", "1"},
  };
  EXPECT_EQ(worker_environment(two_workers(), 1, inherited), want);
}

TEST(TorchrunEnv, OmpThreadsAreSetOnlyForSeveralWorkersAndOnlyWhenUnset) {
  TorchrunJob one = two_workers();
  one.local_world_sizes = {1};
  EXPECT_FALSE(worker_environment(one, 0, {}).contains("OMP_NUM_THREADS"));
  EXPECT_FALSE(defaults_omp_threads(one, {}));
  const Environment eight = {{"OMP_NUM_THREADS", "8"}};
  EXPECT_EQ(worker_environment(two_workers(), 0, eight).at("OMP_NUM_THREADS"), "8");
  EXPECT_FALSE(defaults_omp_threads(two_workers(), eight));
  EXPECT_TRUE(defaults_omp_threads(two_workers(), {}));
}

TEST(TorchrunEnv, AnInheritedNcclSettingStays) {
  const Environment inherited = {{"TORCH_NCCL_ASYNC_ERROR_HANDLING", "3"}};
  EXPECT_EQ(worker_environment(two_workers(), 0, inherited).at("TORCH_NCCL_ASYNC_ERROR_HANDLING"),
            "3");
}

TEST(TorchrunEnv, WithoutALogFolderTheErrorFileIsEmptyText) {
  TorchrunJob job = two_workers();
  job.attempt_dir.clear();
  EXPECT_EQ(worker_environment(job, 0, {}).at("TORCHELASTIC_ERROR_FILE"), "");
}

TEST(TorchrunEnv, RanksCountThroughNodesOfDifferentSize) {
  TorchrunJob job = two_workers();
  job.nodes = 2;
  job.node_rank = 1;
  job.local_world_sizes = {1, 2};
  const Environment env = worker_environment(job, 1, {});
  EXPECT_EQ(env.at("RANK"), "2");
  EXPECT_EQ(env.at("WORLD_SIZE"), "3");
  EXPECT_EQ(env.at("LOCAL_WORLD_SIZE"), "2");
  EXPECT_EQ(env.at("GROUP_RANK"), "1");
  EXPECT_EQ(env.at("GROUP_WORLD_SIZE"), "2");
}

TEST(TorchrunEnv, AVirtualLocalRankSeesOneDevice) {
  TorchrunJob job = two_workers();
  job.virtual_local_rank = true;
  const struct {
    const char* name;
    Environment inherited;
    int32_t local_rank;
    const char* want;
  } cases[] = {
      {"the rank's own number when nothing is listed", {}, 1, "1"},
      {"the n-th of the list", {{"CUDA_VISIBLE_DEVICES", "4,7"}}, 1, "7"},
      {"the first of the list", {{"CUDA_VISIBLE_DEVICES", "4,7"}}, 0, "4"},
      {"past the end of the list", {{"CUDA_VISIBLE_DEVICES", "4"}}, 1, "1"},
      {"an empty list", {{"CUDA_VISIBLE_DEVICES", ""}}, 1, "1"},
  };
  for (const auto& c : cases) {
    SCOPED_TRACE(c.name);
    const Environment env = worker_environment(job, c.local_rank, c.inherited);
    EXPECT_EQ(env.at("LOCAL_RANK"), "0");
    EXPECT_EQ(env.at("RANK"), std::to_string(c.local_rank));
    EXPECT_EQ(env.at("CUDA_VISIBLE_DEVICES"), c.want);
  }
}

TEST(TorchrunEnv, LocalRankIsReplacedEverywhereInEveryArgument) {
  const std::vector<std::string> given = {"--out=${local_rank}/${local_rank}", "${local_rank}",
                                          "$local_rank", "plain"};
  const std::vector<std::string> want = {"--out=12/12", "12", "$local_rank", "plain"};
  EXPECT_EQ(substitute_local_rank(given, 12), want);
}

}  // namespace
}  // namespace muster
