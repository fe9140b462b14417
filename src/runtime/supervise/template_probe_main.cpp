// A program for the tests of templates: warms up by printing, then each forked rank says who it is.
#include <signal.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>

#include "runtime/supervise/template_server.h"

namespace {

pid_t g_template = 0;

int work(const std::vector<std::string>& argv) {
  const char* rank = std::getenv("RANK");
  const char* restart = std::getenv("TORCHELASTIC_RESTART_COUNT");
  char directory[4096];
  std::printf("rank %s restart %s parent %d leader %d in %s with %s\n", rank, restart, getppid(),
              getsid(0) == getpid() && getpgid(0) == getpid(), getcwd(directory, sizeof directory),
              argv.size() > 1 ? argv[1].c_str() : "nothing");
  std::fflush(stdout);
  const std::string what = argv.size() > 1 ? argv[1] : "";
  if (what == "fail-once" && std::strcmp(rank, "1") == 0 && std::strcmp(restart, "0") == 0)
    std::abort();
  if (what == "kill-template-once" && std::strcmp(restart, "0") == 0) {
    if (std::strcmp(rank, "1") == 0) {
      kill(g_template, SIGKILL);
      std::abort();
    }
    sleep(1000);
  }
  if (what == "sleep") sleep(1000);
  return what == "code" ? 40 + std::atoi(rank) : 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (!muster::is_template()) return work({argv, argv + argc});
  std::thread extra;
  if (argc > 1 && std::strcmp(argv[1], "with-thread") == 0)
    extra = std::thread([] { sleep(1000); });
  if (argc > 1 && std::strcmp(argv[1], "hang") == 0) sleep(1000);
  g_template = getpid();
  const auto child = muster::serve_template();
  if (!child.ok()) _exit(3);
  return work(child->argv);
}
