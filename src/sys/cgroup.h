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
  // A group that is not there: fd() is -1, kill() and remove() do nothing.
  CgroupDir() = default;

  // Makes <own group>/<name>. Errors: unsupported or permission with the reason; callers fall back
  // to sweeping.
  static Result<CgroupDir> make(const std::string& name);

  // Opens a group made by another process. Errors: io.
  static Result<CgroupDir> open(const std::string& path);

  int fd() const { return fd_.get(); }  // directory, for CLONE_INTO_CGROUP
  const std::string& path() const { return path_; }
  // A group below this one. Kernels exist (6.14 and later) that kill whatever is cloned into a
  // group that was killed once, so each kill is followed by a fresh group.
  Result<CgroupDir> make_below(const std::string& name) const;

  // SIGKILL for every member, setsid grandchildren included. Errors: io.
  Status kill() const;
  // Removes the group and those below it once they are empty; a group that is not stays.
  void remove();

 private:
  CgroupDir(std::string path, OwnedFd fd) : path_(std::move(path)), fd_(std::move(fd)) {}
  std::string path_;
  OwnedFd fd_;
};

}  // namespace muster
