// muster config explain FILE: every setting of a training run with its value, where it came from
// and what it means.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "app/cli/options.h"
#include "app/cli/read_config.h"
#include "app/cli/verb.h"
#include "train/step/train_config.h"

namespace muster {

int config_main(World& world, const std::vector<std::string>& arguments) {
  std::string what, file;
  std::vector<std::string> sets;
  bool json = false;
  Options options("config",
                  "show the settings of a training configuration and where each value came from");
  options.positional("explain", what, "the word 'explain'");
  options.positional("FILE", file, "a TOML file", false);
  options.values("--set", sets, "override: key=value (repeatable)");
  options.flag("--json", json, "one JSON object on standard output");
  options.footer(
      "Exit codes: 0 the configuration is valid, 1 it is not, 2 the arguments are wrong.");
  if (const auto code = options.parse(arguments)) return *code;
  if (what != "explain") {
    fmt::print(stderr, "muster config: unknown word '{}'; write muster config explain FILE\n",
               what);
    return kExitUsage;
  }
  const auto config = read_train_config(file, sets, world.environment);
  if (!config.ok()) {
    fmt::print(stderr, "muster config: {}\n", config.error().to_string());
    return kExitFailed;
  }
  const auto typed = make_train_config(*config);
  if (json) {
    nlohmann::ordered_json out;
    for (const auto& [key, entry] : config->entries()) {
      out[key] = {{"value", config_value_text(entry.value)}, {"origin", entry.origin}};
    }
    fmt::print("{}\n", out.dump());
  } else {
    size_t width = 0;
    for (const auto& [key, entry] : config->entries()) width = std::max(width, key.size());
    for (const auto& [key, entry] : config->entries()) {
      const Setting* setting = train_schema().find(key);
      fmt::print("{:<{}}  {:<24} {:<28} {}\n", key, width, shown_value(*setting, entry.value),
                 entry.origin, setting->help);
    }
  }
  if (!typed.ok()) {
    fmt::print(stderr, "muster config: {}\n", typed.error().to_string());
    return kExitFailed;
  }
  return kExitOk;
}

}  // namespace muster
