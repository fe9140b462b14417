// RealSpawner: processes of this machine, through a keeper process (keeper.h) that start() forks.
//
// Both sides watch each other: if this process dies, the keeper ends every worker and itself; if
// the keeper dies, the next take_events() ends every descendant of this process that start() did
// not find already, and reports `lost`. While a RealSpawner lives, this process is a subreaper.
//
// Call start() early, while this process has one thread and little memory: it forks without exec.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "sys/cgroup.h"
#include "sys/process_caps.h"
#include "sys/spawner.h"

namespace muster {

class RealSpawner final : public Spawner {
 public:
  struct Options {
    std::string disabled;  // capabilities to do without (process_caps.h)
  };
  // Errors: io (out of processes or descriptors).
  static Result<std::unique_ptr<RealSpawner>> start(const Options& options);
  // Ends everything below the keeper and waits for the keeper.
  ~RealSpawner() override;

  Status submit(const SpawnSpec& spec) override;
  Status start_template(const SpawnSpec& spec) override;
  Status signal(uint64_t id, int signal_number, SignalScope scope) override;
  Status kill_tree(uint64_t id) override;
  Status kill_all() override;
  int event_fd() const override { return socket_.get(); }
  std::vector<SpawnEvent> take_events() override;
  std::string kill_method() const override { return kill_method_; }

  pid_t keeper_pid() const { return keeper_; }
  const ProcessCaps& caps() const { return caps_; }

 private:
  RealSpawner() = default;
  void make_cgroup();
  Status submit(const SpawnSpec& spec, bool is_template);
  Status send(const class WireWriter& message, const std::vector<int>& fds);
  bool receive_one();
  void lose_keeper();
  void reap_keeper();

  OwnedFd socket_;
  pid_t keeper_ = 0;
  bool lost_ = false;
  std::vector<SpawnEvent> inbox_;  // events that arrived while a request was sent
  std::vector<pid_t> earlier_children_;
  ProcessCaps caps_;
  std::unique_ptr<CgroupDir> cgroup_;
  std::string kill_method_;
  bool made_subreaper_ = false;  // by us: undone at the end
};

}  // namespace muster
