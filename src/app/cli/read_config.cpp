#include "app/cli/read_config.h"

#include "base/units.h"
#include "sys/real_files.h"
#include "train/step/train_config.h"

namespace muster {

Result<Config> read_train_config(const std::string& file, const std::vector<std::string>& sets,
                                 const std::map<std::string, std::string>& environment) {
  Config::Sources sources;
  sources.sets = sets;
  sources.environment = environment;
  if (!file.empty()) {
    RealFiles files("");
    MUSTER_TRY(sources.file_text, read_file(files, file).context("configuration"));
    sources.file_name = file;
  }
  return Config::resolve(train_schema(), sources);
}

std::string shown_value(const Setting& setting, const ConfigValue& value) {
  if (setting.type == Setting::Type::bytes) return format_bytes(Bytes{std::get<int64_t>(value)});
  if (setting.type == Setting::Type::duration)
    return format_duration(Nanos{std::get<int64_t>(value)});
  return config_value_text(value);
}

}  // namespace muster
