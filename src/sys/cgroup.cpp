#include "sys/cgroup.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>

#include <cerrno>
#include <fstream>
#include <sstream>
#include <vector>

namespace muster {

static std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  size_t from = 0;
  while (from <= text.size()) {
    const size_t to = text.find(separator, from);
    parts.push_back(text.substr(from, to == std::string_view::npos ? to : to - from));
    if (to == std::string_view::npos) break;
    from = to + 1;
  }
  return parts;
}

// Own group relative to the hierarchy: the line "0::/path".
static Result<std::string> own_group(std::string_view cgroup) {
  for (std::string_view line : split(cgroup, '\n'))
    if (line.starts_with("0::")) return std::string(line.substr(3));
  return Error(Code::unsupported, "this process is in no cgroup v2 group");
}

Result<std::string> find_own_cgroup(std::string_view mountinfo, std::string_view cgroup) {
  MUSTER_TRY(const std::string group, own_group(cgroup));
  for (std::string_view line : split(mountinfo, '\n')) {
    // "36 35 98:0 /root /mount/point options - type source options"
    const size_t dash = line.find(" - ");
    if (dash == std::string_view::npos) continue;
    if (!line.substr(dash + 3).starts_with("cgroup2 ")) continue;
    const auto fields = split(line.substr(0, dash), ' ');
    if (fields.size() < 5) continue;
    const std::string root(fields[3]), mount(fields[4]);
    // The mount may show only a part of the hierarchy.
    if (root == "/") return group == "/" ? mount : mount + group;
    if (group == root) return mount;
    if (group.starts_with(root + "/")) return mount + group.substr(root.size());
    if (group == "/" || group.starts_with("/..")) return mount;
  }
  return Error(Code::unsupported, "no cgroup v2 hierarchy is mounted");
}

static std::string slurp(const char* path) {
  std::ifstream in(path);
  std::ostringstream out;
  out << in.rdbuf();
  return out.str();
}

static Result<CgroupDir> make_group(const std::string& path) {
  if (mkdir(path.c_str(), 0755) != 0) return errno_error(errno, "make cgroup " + path);
  Result<CgroupDir> made = CgroupDir::open(path);
  if (!made.ok()) rmdir(path.c_str());
  return made;
}

Result<CgroupDir> CgroupDir::make(const std::string& name) {
  MUSTER_TRY(const std::string own,
             find_own_cgroup(slurp("/proc/self/mountinfo"), slurp("/proc/self/cgroup")));
  return make_group(own + "/" + name);
}

Result<CgroupDir> CgroupDir::make_below(const std::string& name) const {
  return make_group(path_ + "/" + name);
}

Result<CgroupDir> CgroupDir::open(const std::string& path) {
  OwnedFd fd(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!fd || faccessat(fd.get(), "cgroup.kill", W_OK, 0) != 0)
    return errno_error(errno, path + "/cgroup.kill");
  return CgroupDir(path, std::move(fd));
}

static Status write_at(int directory, const char* file, const std::string& text) {
  OwnedFd fd(openat(directory, file, O_WRONLY | O_CLOEXEC));
  if (!fd) return errno_error(errno, std::string("open ") + file);
  if (write(fd.get(), text.data(), text.size()) < 0)
    return errno_error(errno, std::string("write ") + file);
  return {};
}

Status CgroupDir::kill() const {
  if (!fd_) return {};
  return write_at(fd_.get(), "cgroup.kill", "1");
}

void CgroupDir::remove() {
  if (path_.empty()) return;
  if (rmdir(path_.c_str()) == 0 || errno != EBUSY) return;
  DIR* dir = opendir(path_.c_str());
  if (dir == nullptr) return;
  while (const dirent* entry = readdir(dir))
    if (entry->d_type == DT_DIR && entry->d_name[0] != '.')
      rmdir((path_ + "/" + entry->d_name).c_str());
  closedir(dir);
  rmdir(path_.c_str());
}

}  // namespace muster
