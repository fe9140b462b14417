// Reads a training configuration the same way for every verb: file, environment, --set.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "base/config.h"

namespace muster {

// An empty `file` means defaults only. Errors: those of reading the file and of Config::resolve.
Result<Config> read_train_config(const std::string& file, const std::vector<std::string>& sets,
                                 const std::map<std::string, std::string>& environment);

// The value in the unit a person would write ("32.0 MiB", "250 ms").
std::string shown_value(const Setting& setting, const ConfigValue& value);

}  // namespace muster
