// muster: makes the real seams, finds the verb, runs it.
#include <cstdio>
#include <new>
#include <string>

#include "app/cli/options.h"
#include "app/cli/process.h"
#include "app/cli/verb.h"

namespace {

void print_usage(FILE* out) {
  std::fprintf(out, "usage: muster VERB [OPTIONS]\n\n");
  for (const muster::Verb& verb : muster::verbs())
    std::fprintf(out, "  %-12s %s\n", verb.name, verb.summary);
  std::fprintf(out,
               "\n`muster VERB --help` explains a verb, `muster --version` prints the version.\n");
}

}  // namespace

int main(int argc, char** argv) {
  const std::vector<std::string> words(argv + 1, argv + argc);
  if (words.empty() || words[0] == "-h" || words[0] == "--help" || words[0] == "help") {
    print_usage(words.empty() ? stderr : stdout);
    return words.empty() ? muster::kExitUsage : muster::kExitOk;
  }
  if (words[0] == "--version") {
    std::printf("muster %s\n", MUSTER_VERSION);
    return muster::kExitOk;
  }
  for (const muster::Verb& verb : muster::verbs()) {
    if (words[0] != verb.name) continue;
    muster::ProcessSeams seams;
    muster::World world = seams.world();
    try {
      return verb.main(world, {words.begin() + 1, words.end()});
    } catch (const std::bad_alloc&) {
      std::fprintf(stderr, "muster %s: out of memory\n", verb.name);
      return muster::kExitFailed;
    }
  }
  std::fprintf(stderr, "muster: unknown verb '%s'\n\n", words[0].c_str());
  print_usage(stderr);
  return muster::kExitUsage;
}
