#include "app/train/resolve_config.h"

#include <fmt/format.h>

#include "app/cli/read_config.h"
#include "data/python_stdlib.h"

namespace muster {

// Where the virtual environment may be: named by the environment, or in the checkout this program
// was built from.
static std::vector<std::string> virtual_environments(const World& world) {
  std::vector<std::string> folders;
  const auto set = world.environment.find("VIRTUAL_ENV");
  if (set != world.environment.end()) folders.push_back(set->second);
  folders.push_back(std::string(MUSTER_SOURCE_DIR) + "/.venv");
  return folders;
}

Result<Config> resolve_train_config(const World& world, Files& files, const std::string& file,
                                    std::vector<std::string> sets) {
  MUSTER_TRY(Config config, read_train_config(file, sets, world.environment));
  if (config.text("data.source") != "stdlib" || !config.text_list("data.paths").empty())
    return config;
  MUSTER_TRY(const std::string folder, find_python_stdlib(files, virtual_environments(world)));
  sets.push_back(fmt::format("data.paths=[\"{}\"]", folder));
  return read_train_config(file, sets, world.environment);
}

}  // namespace muster
