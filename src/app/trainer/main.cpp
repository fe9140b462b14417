// muster-trainer: the process that computes. The same seams as muster, and the vendor's kernels
// where it was built with libtorch.
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <new>

#include "app/cli/options.h"
#include "app/cli/process.h"
#include "app/trainer/trainer_verbs.h"

namespace muster {
namespace {

constexpr Verb kVerbs[] = {
    {"worker", "one rank of a training run", worker_main},
    {"template", "warm up, then fork ranks on request", template_main},
    {"score", "log-probabilities of a text", score_main},
    {"generate", "let a model go on with a text", generate_main},
};

int run(const std::vector<std::string>& words) {
  ProcessSeams seams;
  for (const Verb& verb : kVerbs) {
    if (words.empty() || words[0] != verb.name) continue;
    World world = seams.world();
    try {
      return verb.main(world, {words.begin() + 1, words.end()});
    } catch (const std::bad_alloc&) {
      std::fprintf(stderr, "muster-trainer %s: out of memory\n", verb.name);
      return kExitFailed;
    }
  }
  std::fprintf(stderr, "usage: muster-trainer VERB [OPTIONS]\n\n");
  for (const Verb& verb : kVerbs) std::fprintf(stderr, "  %-10s %s\n", verb.name, verb.summary);
  return kExitUsage;
}

}  // namespace
}  // namespace muster

int main(int argc, char** argv) {
  const int code = muster::run({argv + 1, argv + argc});
  // libtorch takes a tenth of a second to take its registrations down again; nothing of ours is
  // left to do.
  std::fflush(stdout);
  std::fflush(stderr);
  _exit(code);
}
