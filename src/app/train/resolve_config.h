// Settings of a training run with what the machine fills in: where the standard library lies.
#pragma once

#include <string>
#include <vector>

#include "app/cli/verb.h"
#include "base/config.h"
#include "sys/files.h"

namespace muster {

// read_train_config, and data.paths of a stdlib source found on this machine. Errors: those of the
// file and its values; not_found when there is no Python.
Result<Config> resolve_train_config(const World& world, Files& files, const std::string& file,
                                    std::vector<std::string> sets);

}  // namespace muster
