// CgroupDir: a cgroup v2 group of our own, used for one thing: killing everything in it at once.
// It needs a writable v2 hierarchy below our own group (delegation, or root). No controller is
// switched on and nothing is written to groups that we did not make.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"
#include "sys/owned_fd.h"

namespace muster {

// Where the v2 hierarchy is mounted and which group a process is in, read from the texts of
// /proc/self/mountinfo and /proc/self/cgroup. Returns the directory of that group.
// Errors: unsupported with the reason (no v2 mount, not in a v2 group).
Result<std::string> find_own_cgroup(std::string_view mountinfo, std::string_view cgroup);

class CgroupDir {
 public:
  // Makes <own group>/<name>. Errors: unsupported or permission with the reason; callers fall back
  // to sweeping.
  static Result<CgroupDir> make(const std::string& name);

  int fd() const { return fd_.get(); }  // directory, for CLONE_INTO_CGROUP
  const std::string& path() const { return path_; }
  // SIGKILL for every member, setsid grandchildren included. Errors: io.
  Status kill() const;
  // Moves a process in. Errors: io.
  Status attach(int pid) const;
  // Removes the group once it is empty; a group that is not stays.
  void remove();

 private:
  CgroupDir(std::string path, OwnedFd fd) : path_(std::move(path)), fd_(std::move(fd)) {}
  std::string path_;
  OwnedFd fd_;
};

}  // namespace muster
