// A verb of the muster program: one file of this folder each, listed in verbs.cpp.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/log.h"
#include "base/random.h"

namespace muster {

// The seams, made in main and passed down.
struct World {
  Clock& clock;
  Random& random;
  Log& log;
  std::map<std::string, std::string> environment;
  std::string program;  // path of the running muster binary, for finding muster-trainer beside it
};

struct Verb {
  const char* name;     // "run", "ckpt"
  const char* summary;  // one line for `muster --help`
  // `arguments` without the verb itself. Returns the exit code.
  int (*main)(World& world, const std::vector<std::string>& arguments);
};

const std::vector<Verb>& verbs();

}  // namespace muster
