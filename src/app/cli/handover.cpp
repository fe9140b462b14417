// muster score and muster generate: handed to muster-trainer, which has the kernels.
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "app/cli/options.h"
#include "app/cli/trainer_program.h"
#include "app/cli/verb.h"

namespace muster {

std::string trainer_program(const World& world) {
  const auto set = world.environment.find("MUSTER_TRAINER");
  if (set != world.environment.end() && !set->second.empty()) return set->second;
  const size_t slash = world.program.rfind('/');
  return (slash == std::string::npos ? std::string() : world.program.substr(0, slash + 1)) +
         "muster-trainer";
}

static int hand_over(World& world, const char* verb, const std::vector<std::string>& arguments) {
  const std::string program = trainer_program(world);
  std::vector<char*> argv = {const_cast<char*>(program.c_str()), const_cast<char*>(verb)};
  for (const std::string& argument : arguments) argv.push_back(const_cast<char*>(argument.c_str()));
  argv.push_back(nullptr);
  execv(program.c_str(), argv.data());
  fmt::print(
      stderr,
      "muster {}: {} cannot be started: {}; build it with ./dev build, or set MUSTER_TRAINER\n",
      verb, program, std::strerror(errno));
  return kExitFailed;
}

int score_main(World& world, const std::vector<std::string>& arguments) {
  return hand_over(world, "score", arguments);
}
int generate_main(World& world, const std::vector<std::string>& arguments) {
  return hand_over(world, "generate", arguments);
}

}  // namespace muster
