#include "sys/exec_child.h"

#include <fcntl.h>
#include <linux/close_range.h>
#include <linux/sched.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "base/check.h"

// The child runs on borrowed memory: no instrumentation there.
#define MUSTER_BARE __attribute__((no_sanitize("address", "undefined", "thread")))

namespace muster {
namespace {

struct ChildContext {
  const ExecPlan* plan;
  bool close_range;
  bool join_cgroup;  // cgroup by writing cgroup.procs, where clone could not do it
  volatile int error;
  const char* volatile stage;
};

[[noreturn]] MUSTER_BARE void give_up(ChildContext* context, const char* stage) {
  context->error = errno;
  context->stage = stage;
  for (;;) syscall(SYS_exit_group, 127);
}

// Only plain system calls: the parent's heap and locks are not ours.
MUSTER_BARE int run_child(void* argument) {
  auto* context = static_cast<ChildContext*>(argument);
  const ExecPlan& plan = *context->plan;
  syscall(SYS_setsid);
  syscall(SYS_prctl, PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
  if (syscall(SYS_getppid) != plan.parent) give_up(context, "clone");
  if (context->join_cgroup) {
    const long procs = syscall(SYS_openat, plan.cgroup_fd, "cgroup.procs", O_WRONLY | O_CLOEXEC, 0);
    if (procs >= 0) syscall(SYS_write, procs, "0", size_t{1});
  }
  if (context->close_range) syscall(SYS_close_range, 3U, ~0U, CLOSE_RANGE_CLOEXEC);
  for (int i = 0; i < 3; ++i)
    if (syscall(SYS_dup3, plan.stdio[i], i, 0) < 0) give_up(context, "dup");
  for (size_t i = 0; i < plan.extra_count; ++i)
    if (syscall(SYS_dup3, plan.extra[i], 3 + static_cast<int>(i), 0) < 0) give_up(context, "dup");
  if (plan.directory[0] != 0 && syscall(SYS_chdir, plan.directory) != 0) give_up(context, "chdir");
  if (plan.open_files != nullptr)
    syscall(SYS_prlimit64, 0, RLIMIT_NOFILE, plan.open_files, nullptr);
  const uint64_t no_signals = 0;
  syscall(SYS_rt_sigprocmask, SIG_SETMASK, &no_signals, nullptr, sizeof no_signals);
  syscall(SYS_execve, plan.path, plan.argv, plan.envp);
  if (errno == ENOEXEC) syscall(SYS_execve, plan.shell_argv[0], plan.shell_argv, plan.envp);
  give_up(context, "exec");
}

#if defined(__x86_64__)
// clone3 has no wrapper in glibc 2.36. The child starts on its own stack and never returns here.
MUSTER_BARE long clone3_call(clone_args* args, int (*entry)(void*), void* argument) {
  long result = SYS_clone3;
  register int (*entry_register)(void*) __asm__("r12") = entry;
  register void* argument_register __asm__("r13") = argument;
  __asm__ volatile(
      "syscall\n\t"
      "test %%rax, %%rax\n\t"
      "jnz 1f\n\t"
      "xor %%ebp, %%ebp\n\t"
      "mov %%r13, %%rdi\n\t"
      "call *%%r12\n\t"
      "ud2\n\t"
      "1:"
      : "+a"(result)
      : "D"(args), "S"(sizeof *args), "r"(entry_register), "r"(argument_register)
      : "rcx", "r11", "memory");
  return result;
}
#endif

constexpr size_t kStackBytes = 64 << 10;

char* child_stack() {
  // One per process: a vfork child is done with it before the next begins.
  static char* stack = [] {
    void* mapped = mmap(nullptr, kStackBytes, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);
    MUSTER_CHECK(mapped != MAP_FAILED, errno);
    return static_cast<char*>(mapped);
  }();
  return stack;
}

// Returns the pid or -errno.
long clone_with_clone3(ChildContext* context, int* pidfd) {
#if defined(__x86_64__)
  clone_args args{};
  args.flags = CLONE_VM | CLONE_VFORK | CLONE_PIDFD;
  args.pidfd = reinterpret_cast<uint64_t>(pidfd);
  args.exit_signal = SIGCHLD;
  args.stack = reinterpret_cast<uint64_t>(child_stack());
  args.stack_size = kStackBytes;
  if (context->plan->cgroup_fd >= 0) {
    args.flags |= CLONE_INTO_CGROUP;
    args.cgroup = static_cast<uint64_t>(context->plan->cgroup_fd);
  }
  return clone3_call(&args, run_child, context);
#else
  (void)context, (void)pidfd;
  return -ENOSYS;
#endif
}

long clone_with_clone(ChildContext* context, int* pidfd, bool want_pidfd) {
  context->join_cgroup = context->plan->cgroup_fd >= 0;
  const int flags = CLONE_VM | CLONE_VFORK | SIGCHLD | (want_pidfd ? CLONE_PIDFD : 0);
  const int pid = clone(run_child, child_stack() + kStackBytes, flags, context, pidfd);
  return pid < 0 ? -errno : pid;
}

}  // namespace

ExecResult exec_child(const ExecPlan& plan, const ProcessCaps& caps) {
  ChildContext context{&plan, caps.close_range, false, 0, ""};
  int pidfd = -1;
  long pid = caps.clone3 ? clone_with_clone3(&context, &pidfd)
                         : clone_with_clone(&context, &pidfd, caps.pidfd);
  ExecResult result;
  if (pid < 0) {
    result.error = static_cast<int>(-pid);
    result.stage = "clone";
    return result;
  }
  result.pid = static_cast<pid_t>(pid);
  result.pidfd.reset(pidfd);
  if (context.error != 0) {
    result.error = context.error;
    result.stage = context.stage;
    while (waitpid(result.pid, nullptr, 0) < 0 && errno == EINTR) {
    }
    result.pid = -1;
    result.pidfd.reset();
  }
  return result;
}

static std::string from_directory(const std::string& path, const std::string& directory) {
  if (directory.empty() || path.starts_with("/")) return path;
  return directory + "/" + path;
}

// 0 if `path` is a file that may be run, else errno.
static int runnable(const std::string& path) {
  struct stat info;
  if (stat(path.c_str(), &info) != 0) return errno;
  if (S_ISDIR(info.st_mode)) return EACCES;
  return access(path.c_str(), X_OK) == 0 ? 0 : errno;
}

Result<std::string> find_executable(const std::string& name, const std::string& directory,
                                    const std::string& path) {
  if (name.empty()) return Error(Code::not_found, "the program name is empty");
  if (name.find('/') != std::string::npos) {
    const int error = runnable(from_directory(name, directory));
    if (error == 0) return name;
    const Code code = error == EACCES ? Code::permission : Code::not_found;
    return Error(code, "cannot run '" + name + "': " + std::strerror(error));
  }
  bool denied = false;
  for (size_t from = 0; from <= path.size();) {
    size_t colon = path.find(':', from);
    if (colon == std::string::npos) colon = path.size();
    const std::string folder = path.substr(from, colon - from);
    const std::string candidate = (folder.empty() ? std::string(".") : folder) + "/" + name;
    const int error = runnable(from_directory(candidate, directory));
    if (error == 0) return candidate;
    denied = denied || error == EACCES;
    from = colon + 1;
  }
  if (denied)
    return Error(Code::permission, "'" + name + "' in PATH is not executable; check its mode");
  return Error(Code::not_found, "no program '" + name + "' in PATH (" + path + ")");
}

}  // namespace muster
