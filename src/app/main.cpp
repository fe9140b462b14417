// muster: makes the real seams, finds the verb, runs it.
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#include "app/cli/options.h"
#include "app/cli/verb.h"

namespace {

std::map<std::string, std::string> environment_map() {
  std::map<std::string, std::string> map;
  for (char** e = environ; *e != nullptr; ++e) {
    const char* equal = std::strchr(*e, '=');
    if (equal != nullptr) map[std::string(*e, static_cast<size_t>(equal - *e))] = equal + 1;
  }
  return map;
}

std::string own_path() {
  char buffer[4096];
  const ssize_t n = readlink("/proc/self/exe", buffer, sizeof buffer);
  return n > 0 ? std::string(buffer, static_cast<size_t>(n)) : "muster";
}

void print_usage(FILE* out) {
  std::fprintf(out, "usage: muster VERB [OPTIONS]\n\n");
  for (const muster::Verb& verb : muster::verbs())
    std::fprintf(out, "  %-12s %s\n", verb.name, verb.summary);
  std::fprintf(out, "\n`muster VERB --help` explains a verb.\n");
}

}  // namespace

int main(int argc, char** argv) {
  muster::RealClock clock;
  muster::RealRandom random;
  const char* level = std::getenv("MUSTER_LOG");
  const bool debug = level != nullptr && std::strcmp(level, "debug") == 0;
  muster::Log log(clock, STDERR_FILENO, debug ? muster::LogLevel::debug : muster::LogLevel::info,
                  muster::Log::Format::text);
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
    muster::World world{clock, random, log, environment_map(), own_path()};
    return verb.main(world, {words.begin() + 1, words.end()});
  }
  std::fprintf(stderr, "muster: unknown verb '%s'\n\n", words[0].c_str());
  print_usage(stderr);
  return muster::kExitUsage;
}
