// Where muster-trainer is: MUSTER_TRAINER, or beside the muster that runs.
#pragma once

#include <string>

#include "app/cli/verb.h"

namespace muster {

std::string trainer_program(const World& world);

}  // namespace muster
