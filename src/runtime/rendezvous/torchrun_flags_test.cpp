#include "runtime/rendezvous/torchrun_flags.h"

#include <gtest/gtest.h>

namespace muster {
namespace {

using namespace std::chrono_literals;
using Words = std::vector<std::string>;

TorchrunFlags parsed(const Words& words, const Environment& environment = {}) {
  Result<TorchrunFlags> flags = parse_torchrun_flags(words, environment);
  EXPECT_TRUE(flags) << (flags ? "" : flags.error().to_string());
  return flags ? *flags : TorchrunFlags{};
}

TEST(TorchrunFlags, EverythingHasTorchrunsDefault) {
  const TorchrunFlags f = parsed({"train.py"});
  EXPECT_EQ(f.script, "train.py");
  EXPECT_EQ(f.min_nodes, 1);
  EXPECT_EQ(f.max_nodes, 1);
  EXPECT_EQ(f.nproc_per_node, 1);
  EXPECT_EQ(f.rdzv_backend, "static");
  EXPECT_EQ(f.rdzv_id, "none");
  EXPECT_EQ(f.max_restarts, 0);
  EXPECT_EQ(f.monitor_interval, 100ms);
  EXPECT_EQ(f.start_method, "spawn");
  EXPECT_EQ(f.role, "default");
  EXPECT_EQ(f.entry, TorchrunFlags::Entry::script);
  EXPECT_EQ(f.redirects.of(0), StreamSet::none);
  EXPECT_EQ(f.master_addr, "127.0.0.1");
  EXPECT_FALSE(f.master_port);
  EXPECT_EQ(f.shutdown_timeout, 30s);
  EXPECT_EQ(f.signals_to_handle, (Words{"SIGTERM", "SIGINT", "SIGHUP", "SIGQUIT"}));
  EXPECT_TRUE(is_local_job(f));
}

TEST(TorchrunFlags, EveryFlagIsTaken) {
  const TorchrunFlags f = parsed({"--nnodes=1:4",
                                  "--nproc-per-node",
                                  "8",
                                  "--rdzv-backend=c10d",
                                  "--rdzv-endpoint=h:29400",
                                  "--rdzv-id=7",
                                  "--rdzv-conf=join_timeout=60,read_timeout=5",
                                  "--max-restarts=3",
                                  "--monitor-interval=0.5",
                                  "--start-method=fork",
                                  "--event-log-handler=x",
                                  "--role=r",
                                  "--log-dir=/l",
                                  "--local-ranks-filter=0,3",
                                  "--duplicate-stdout-filters=a,b",
                                  "--duplicate-stderr-filters=c",
                                  "--node-rank=1",
                                  "--master-addr=10.0.0.1",
                                  "--master-port=29501",
                                  "--local-addr=me",
                                  "--logs-specs=s",
                                  "--numa-binding=socket",
                                  "--signals-to-handle=SIGTERM,SIGUSR1",
                                  "--shutdown-timeout=2",
                                  "--virtual-local-rank",
                                  "s.py"});
  EXPECT_EQ(f.max_nodes, 4);
  EXPECT_EQ(f.nproc_per_node, 8);
  EXPECT_EQ(f.rdzv_conf.at("join_timeout"), "60");
  EXPECT_EQ(f.rdzv_conf.at("read_timeout"), "5");
  EXPECT_EQ(f.max_restarts, 3);
  EXPECT_EQ(f.monitor_interval, 500ms);
  EXPECT_EQ(f.local_ranks_filter, (std::set<int32_t>{0, 3}));
  EXPECT_EQ(f.duplicate_stdout_filters, (Words{"a", "b"}));
  EXPECT_EQ(f.duplicate_stderr_filters, (Words{"c"}));
  EXPECT_EQ(f.node_rank, 1);
  EXPECT_EQ(f.master_addr, "10.0.0.1");
  EXPECT_EQ(f.master_port, 29501);
  EXPECT_EQ(f.numa_binding, "socket");
  EXPECT_EQ(f.signals_to_handle, (Words{"SIGTERM", "SIGUSR1"}));
  EXPECT_EQ(f.shutdown_timeout, 2s);
  EXPECT_TRUE(f.virtual_local_rank);
}

TEST(TorchrunFlags, SpellingsThatMeanTheSame) {
  for (const Words& words :
       {Words{"--max-restarts", "2", "s"}, Words{"--max_restarts=2", "s"},
        Words{"--max_restarts", "2", "s"}, Words{"--max-r=2", "s"}, Words{"--max", "2", "s"}})
    EXPECT_EQ(parsed(words).max_restarts, 2) << words[0];
  for (const Words& words :
       {Words{"-r", "3", "s"}, Words{"-r3", "s"}, Words{"-r=3", "s"}, Words{"--redirects=3", "s"}})
    EXPECT_EQ(parsed(words).redirects.of(5), StreamSet::both) << words[0];
  for (const Words& words : {Words{"--stand", "s"}, Words{"--standalone", "s"}})
    EXPECT_TRUE(parsed(words).standalone) << words[0];
}

TEST(TorchrunFlags, WhatFollowsTheScriptIsTheScripts) {
  EXPECT_EQ(parsed({"s.py", "-x", "--nnodes", "3"}).arguments, (Words{"-x", "--nnodes", "3"}));
  EXPECT_EQ(parsed({"s.py", "--", "x"}).arguments, (Words{"x"}));
  EXPECT_EQ(parsed({"--", "s.py", "--", "x"}).arguments, (Words{"--", "x"}));
  EXPECT_EQ(parsed({"s.py", "a", "--", "x"}).arguments, (Words{"a", "--", "x"}));
  EXPECT_EQ(parsed({"--no-python", "--", "-odd"}).script, "-odd");
}

TEST(TorchrunFlags, RedirectsAndTeeByLocalRank) {
  const TorchrunFlags f = parsed({"-r", "0:1,3:2", "-t", "1:3", "s.py"});
  EXPECT_EQ(f.redirects.of(0), StreamSet::out);
  EXPECT_EQ(f.redirects.of(1), StreamSet::none);
  EXPECT_EQ(f.redirects.of(3), StreamSet::err);
  EXPECT_EQ(f.tee.of(1), StreamSet::both);
  EXPECT_EQ(f.tee.of(0), StreamSet::none);
}

TEST(TorchrunFlags, TheEnvironmentGivesDefaultsAndAFlagBeatsIt) {
  const Environment env = {{"PET_MAX_RESTARTS", "3"},
                           {"PET_STANDALONE", "1"},
                           {"PET_NPROC_PER_NODE", "4"},
                           {"PET_NO_PYTHON", "0"},
                           {"PET_TEE", "3"},
                           {"PET_NUMA_BINDING", "nonsense"},  // has no environment default
                           {"TORCH_ELASTIC_SHUTDOWN_TIMEOUT", "5"}};
  const TorchrunFlags f = parsed({"--nproc-per-node=2", "s.py"}, env);
  EXPECT_EQ(f.max_restarts, 3);
  EXPECT_TRUE(f.standalone);
  EXPECT_EQ(f.nproc_per_node, 2);
  EXPECT_EQ(f.entry, TorchrunFlags::Entry::script);
  EXPECT_EQ(f.tee.of(0), StreamSet::both);
  EXPECT_EQ(f.numa_binding, "");
  EXPECT_EQ(f.shutdown_timeout, 5s);
  EXPECT_EQ(parsed({"--shutdown-timeout=1", "s"}, env).shutdown_timeout, 1s);
}

TEST(TorchrunFlags, WhatIsWrongIsNamed) {
  const struct {
    Words words;
    Environment environment;
    const char* named;
  } cases[] = {
      {{}, {}, "no script"},
      {{"--nnodes=2"}, {}, "no script"},
      {{"--bogus", "s"}, {}, "--bogus"},
      {{"-x", "s"}, {}, "-x"},
      {{"--role"}, {}, "--role needs a value"},
      {{"--role", "-x", "s"}, {}, "--role needs a value"},
      {{"--master", "1", "s"}, {}, "--master-addr, --master-port"},
      {{"--standalone=1", "s"}, {}, "takes no value"},
      {{"-ms", "a"}, {}, "takes no value"},
      {{"--max-restarts", "x", "s"}, {}, "\"x\""},
      {{"--max-restarts", "-1", "s"}, {}, "\"-1\""},
      {{"--nproc-per-node=0", "s"}, {}, "\"0\""},
      {{"--nproc-per-node=many", "s"}, {}, "\"many\""},
      {{"--nnodes=3:2", "s"}, {}, "MIN"},
      {{"--nnodes=1:2:3", "s"}, {}, "1:2:3"},
      {{"-r", "4", "s"}, {}, "\"4\""},
      {{"-t", "10:1", "s"}, {}, "10:1"},
      {{"-t", "0:1,", "s"}, {}, "0:1,"},
      {{"-t", "", "s"}, {}, "are needed"},
      {{"--master-port=70000", "s"}, {}, "70000"},
      {{"--start-method=bad", "s"}, {}, "forkserver"},
      {{"--monitor-interval=-1", "s"}, {}, "seconds"},
      {{"--rdzv-conf=a", "s"}, {}, "KEY=VALUE"},
      {{"--numa-binding=x", "s"}, {}, "core-complex"},
      {{"-m", "--no-python", "s"}, {}, "exclude"},
      {{"--run-path", "-m", "s"}, {}, "exclude"},
      {{"s"}, {{"PET_STANDALONE", "true"}}, "PET_STANDALONE"},
      {{"s"}, {{"PET_MAX_RESTARTS", ""}}, "PET_MAX_RESTARTS"},
  };
  for (const auto& c : cases) {
    const Result<TorchrunFlags> flags = parse_torchrun_flags(c.words, c.environment);
    ASSERT_FALSE(flags) << c.named;
    EXPECT_EQ(flags.error().code(), Code::invalid_argument);
    EXPECT_NE(flags.error().to_string().find(c.named), std::string::npos)
        << flags.error().to_string();
  }
}

TEST(TorchrunFlags, AJobIsLocalAsTorchrunDecides) {
  EXPECT_TRUE(is_local_job(parsed({"--standalone", "--nnodes=1", "--master-port=1", "s"})));
  EXPECT_FALSE(is_local_job(parsed({"--master-port=29500", "s"})));
  EXPECT_FALSE(is_local_job(parsed({"--nnodes=2", "s"})));
  EXPECT_FALSE(is_local_job(parsed({"--rdzv-backend=c10d", "s"})));
  EXPECT_FALSE(is_local_job(parsed({"--rdzv-endpoint=h:1", "s"})));
}

TEST(TorchrunFlags, TheWorkersCommand) {
  EXPECT_EQ(worker_command(parsed({"s.py", "a"}), "python3", {}),
            (Words{"python3", "-u", "s.py", "a"}));
  EXPECT_EQ(worker_command(parsed({"s.py"}), "python3", {{"PYTHON_EXEC", "/opt/py"}}),
            (Words{"/opt/py", "-u", "s.py"}));
  EXPECT_EQ(worker_command(parsed({"-m", "pkg.mod", "a"}), "python3", {}),
            (Words{"python3", "-u", "-m", "pkg.mod", "a"}));
  EXPECT_EQ(worker_command(parsed({"--no-python", "./prog", "a"}), "python3", {}),
            (Words{"./prog", "a"}));
  EXPECT_EQ(worker_command(parsed({"--run-path", "s.py"}), "python3", {}).back(), "s.py");
}

TEST(TorchrunFlags, HowManyWorkers) {
  EXPECT_EQ(*process_count(parsed({"--nproc-per-node=3", "s"}), 16, 2), 3);
  EXPECT_EQ(*process_count(parsed({"--nproc-per-node=cpu", "s"}), 16, 2), 16);
  EXPECT_EQ(*process_count(parsed({"--nproc-per-node=gpu", "s"}), 16, 2), 2);
  EXPECT_EQ(*process_count(parsed({"--nproc-per-node=auto", "s"}), 16, 0), 16);
  EXPECT_EQ(process_count(parsed({"--nproc-per-node=gpu", "s"}), 16, 0).error().code(),
            Code::unsupported);
}

TEST(TorchrunFlags, HelpIsAskedForBeforeTheScriptOnlyAndNamesEveryFlag) {
  EXPECT_TRUE(parsed({"--help"}).help);
  EXPECT_TRUE(parsed({"-r3", "-h"}).help);
  EXPECT_FALSE(parsed({"s.py", "--help"}).help);
  for (const char* flag : {"--nnodes", "-m, --module", "-t, --tee", "--virtual-local-rank"})
    EXPECT_NE(torchrun_help().find(flag), std::string::npos) << flag;
}

}  // namespace
}  // namespace muster
