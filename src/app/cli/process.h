// ProcessSeams: the real seams of a program, made once in main and passed down as a World.
#pragma once

#include "app/cli/verb.h"

namespace muster {

// environ(7) as it is now.
std::map<std::string, std::string> current_environment();

class ProcessSeams {
 public:
  // MUSTER_LOG=debug lowers the log's level.
  ProcessSeams();
  // Views of the members, which must outlive it.
  World world();

 private:
  RealClock clock_;
  RealRandom random_;
  Log log_;
};

}  // namespace muster
