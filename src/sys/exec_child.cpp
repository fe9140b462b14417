#include "sys/exec_child.h"

#include <fcntl.h>
#include <linux/close_range.h>
#include <linux/futex.h>
#include <linux/sched.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <utility>

#include "base/check.h"

// The child runs on borrowed memory, beside its parent: no instrumentation, and no errno.
#define MUSTER_BARE __attribute__((no_sanitize("address", "undefined", "thread"), noinline))

namespace muster {
namespace {

#if defined(__x86_64__)
constexpr bool kBareCalls = true;

// Returns -errno on failure, unlike syscall(2), which writes errno.
MUSTER_BARE long call(long number, long a = 0, long b = 0, long c = 0, long d = 0, long e = 0) {
  register long r10 __asm__("r10") = d;
  register long r8 __asm__("r8") = e;
  __asm__ volatile("syscall"
                   : "+a"(number)
                   : "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8)
                   : "rcx", "r11", "memory");
  return number;
}
#else
constexpr bool kBareCalls = false;

MUSTER_BARE long call(long number, long a = 0, long b = 0, long c = 0, long d = 0, long e = 0) {
  const long result = syscall(number, a, b, c, d, e);
  return result == -1 ? -errno : result;
}
#endif

long address(const void* pointer) {
  return reinterpret_cast<long>(pointer);
}

enum class Stage : int { none, clone, dup, chdir, exec };

// What the child reads and writes. Everything else of the parent is not its own.
struct ChildContext {
  const char* file;
  char* const* argv;
  char* const* shell_argv;  // for scripts without "#!"
  char* const* envp;
  const char* directory;
  int stdio[3];
  const int* extra;
  size_t extra_count;
  const rlimit* open_files;
  pid_t parent;
  bool close_range;
  int cgroup_fd;  // to join by hand; -1 where clone did it
  volatile int error = 0;
  volatile Stage stage = Stage::none;
};

[[noreturn]] MUSTER_BARE void give_up(ChildContext* context, Stage stage, long error) {
  context->error = static_cast<int>(error);
  context->stage = stage;
  for (;;) call(SYS_exit_group, 127);
}

MUSTER_BARE int run_child(void* argument) {
  auto* context = static_cast<ChildContext*>(argument);
  call(SYS_setsid);
  call(SYS_prctl, PR_SET_PDEATHSIG, SIGKILL);
  if (call(SYS_getppid) != context->parent) give_up(context, Stage::clone, ESRCH);
  if (context->cgroup_fd >= 0) {
    const long procs =
        call(SYS_openat, context->cgroup_fd, address("cgroup.procs"), O_WRONLY | O_CLOEXEC);
    if (procs >= 0) call(SYS_write, procs, address("0"), 1);
  }
  if (context->close_range) call(SYS_close_range, 3, ~0U, CLOSE_RANGE_CLOEXEC);
  long result = 0;
  for (int i = 0; i < 3; ++i)
    if ((result = call(SYS_dup3, context->stdio[i], i, 0)) < 0)
      give_up(context, Stage::dup, -result);
  for (size_t i = 0; i < context->extra_count; ++i)
    if ((result = call(SYS_dup3, context->extra[i], 3 + static_cast<long>(i), 0)) < 0)
      give_up(context, Stage::dup, -result);
  if (context->directory[0] != 0 && (result = call(SYS_chdir, address(context->directory))) < 0)
    give_up(context, Stage::chdir, -result);
  if (context->open_files != nullptr)
    call(SYS_prlimit64, 0, RLIMIT_NOFILE, address(context->open_files));
  const uint64_t no_signals = 0;
  call(SYS_rt_sigprocmask, SIG_SETMASK, address(&no_signals), 0, sizeof no_signals);
  result = call(SYS_execve, address(context->file), address(context->argv), address(context->envp));
  if (result == -ENOEXEC)
    result = call(SYS_execve, address(context->shell_argv[0]), address(context->shell_argv),
                  address(context->envp));
  give_up(context, Stage::exec, -result);
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

constexpr size_t kStackBytes = 32 << 10;
constexpr size_t kSlots = 16;

std::string describe(Stage stage, const ExecPlan& plan) {
  switch (stage) {
    case Stage::chdir:
      return "enter directory '" + std::string(plan.directory) + "'";
    case Stage::dup:
      return "hand over descriptors";
    case Stage::exec:
      return "run '" + plan.file + "'";
    default:
      return "create a process";
  }
}

}  // namespace

// A child on its way to exec, with all it reads.
struct ExecLauncher::Slot {
  char* stack;
  std::atomic<int> busy{0};  // the kernel clears and wakes it when the child leaves our memory
  bool taken = false;
  ExecPlan plan;
  std::vector<char*> shell_argv;
  ChildContext context{};
  Outcome outcome;

  Slot() {
    void* mapped = mmap(nullptr, kStackBytes, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);
    MUSTER_CHECK(mapped != MAP_FAILED, errno);
    stack = static_cast<char*>(mapped);
  }
  ~Slot() { munmap(stack, kStackBytes); }
};

ExecLauncher::ExecLauncher(const ProcessCaps& caps) : caps_(caps) {
  const size_t count = caps_.clone3 && kBareCalls ? kSlots : 1;
  for (size_t i = 0; i < count; ++i) slots_.push_back(std::make_unique<Slot>());
}

ExecLauncher::~ExecLauncher() {
  settled(true);
}

// Slots are used in turn, so the next one is free or the one that has been busy longest.
ExecLauncher::Slot& ExecLauncher::free_slot() {
  for (;;) {
    for (const auto& slot : slots_)
      if (!slot->taken) return *slot;
    collect(true);
  }
}

void ExecLauncher::collect(bool wait_one) {
  if (wait_one) {
    for (const auto& slot : slots_) {
      if (!slot->taken || slot->busy.load() == 0) continue;
      const timespec limit{0, 10'000'000};
      syscall(SYS_futex, &slot->busy, FUTEX_WAIT, 1, &limit, nullptr, 0);
      break;
    }
  }
  for (const auto& slot : slots_) {
    if (!slot->taken || slot->busy.load(std::memory_order_acquire) != 0) continue;
    slot->taken = false;
    --pending_;
    Outcome outcome = std::move(slot->outcome);
    if (slot->context.error != 0) {
      outcome.error = slot->context.error;
      outcome.what = describe(slot->context.stage, slot->plan);
    }
    outcomes_.push_back(std::move(outcome));
  }
}

std::vector<ExecLauncher::Outcome> ExecLauncher::settled(bool all) {
  if (pending_ > 0) collect(false);
  while (all && pending_ > 0) collect(true);
  return std::exchange(outcomes_, {});
}

void ExecLauncher::launch(uint64_t id, ExecPlan plan) {
  Slot& slot = free_slot();
  slot.plan = std::move(plan);
  slot.shell_argv = {const_cast<char*>("/bin/sh"), slot.plan.file.data()};
  slot.shell_argv.insert(slot.shell_argv.end(), slot.plan.argv.begin() + 1, slot.plan.argv.end());
  ChildContext& context = slot.context;
  context.file = slot.plan.file.c_str();
  context.argv = slot.plan.argv.data();
  context.shell_argv = slot.shell_argv.data();
  context.envp = slot.plan.environment.data();
  context.directory = slot.plan.directory;
  std::copy(std::begin(slot.plan.stdio), std::end(slot.plan.stdio), context.stdio);
  context.extra = slot.plan.extra.data();
  context.extra_count = slot.plan.extra.size();
  context.open_files = slot.plan.open_files;
  context.parent = getpid();
  context.close_range = caps_.close_range;
  context.cgroup_fd = -1;
  context.error = 0;
  context.stage = Stage::none;

  int pidfd = -1;
  long pid = -ENOSYS;
#if defined(__x86_64__)
  if (caps_.clone3) {
    // Not CLONE_VFORK: this process goes on, and learns by CLONE_CHILD_CLEARTID when the child has
    // left the shared memory.
    clone_args args{};
    args.flags = CLONE_VM | CLONE_PIDFD | CLONE_CHILD_CLEARTID;
    args.pidfd = reinterpret_cast<uint64_t>(&pidfd);
    args.child_tid = reinterpret_cast<uint64_t>(&slot.busy);
    args.exit_signal = SIGCHLD;
    args.stack = reinterpret_cast<uint64_t>(slot.stack);
    args.stack_size = kStackBytes;
    if (slot.plan.cgroup_fd >= 0) {
      args.flags |= CLONE_INTO_CGROUP;
      args.cgroup = static_cast<uint64_t>(slot.plan.cgroup_fd);
    }
    slot.busy.store(1);
    pid = clone3_call(&args, run_child, &context);
  }
#endif
  if (!caps_.clone3 || !kBareCalls) {
    context.cgroup_fd = slot.plan.cgroup_fd;
    const int flags = CLONE_VM | CLONE_VFORK | SIGCHLD | (caps_.pidfd ? CLONE_PIDFD : 0);
    pid = ::clone(run_child, slot.stack + kStackBytes, flags, &context, &pidfd);
    if (pid < 0) pid = -errno;
    slot.busy.store(0);
  }
  slot.outcome = Outcome{id, static_cast<pid_t>(pid), OwnedFd(pidfd), 0, {}};
  if (pid < 0) {
    slot.busy.store(0);
    slot.outcome.pid = -1;
    context.error = static_cast<int>(-pid);
    context.stage = Stage::clone;
  }
  slot.taken = true;
  ++pending_;
}

int try_cgroup(const ProcessCaps& caps, int cgroup_fd) {
  ExecLauncher launcher(caps);
  ExecPlan plan;
  // It is born, finds that there is nothing to run, and exits with 127.
  plan.file = "/";
  plan.argv = {plan.file.data(), nullptr};
  plan.environment = {nullptr};
  for (int& fd : plan.stdio) fd = 0;
  plan.cgroup_fd = cgroup_fd;
  launcher.launch(0, std::move(plan));
  const std::vector<ExecLauncher::Outcome> outcomes = launcher.settled(true);
  const ExecLauncher::Outcome& outcome = outcomes.at(0);
  if (outcome.pid < 0) return outcome.error;
  int status = 0;
  while (waitpid(outcome.pid, &status, 0) < 0 && errno == EINTR) {
  }
  return WIFSIGNALED(status) ? EOWNERDEAD : 0;
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
