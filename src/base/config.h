// Config: typed values from a TOML file, --set key=value and the environment, each of which knows
// where it came from.
//
// The owner of a setting declares it in a Schema (dotted key, type, default, range, unit, one line
// of help); Config resolves all sources against the schema. Later sources win: default < file <
// environment < --set. An unknown key is an error that names the nearest valid one; ranges are
// checked with their units.
//
// Environment: key "optimizer.lr" is MUSTER_OPTIMIZER__LR ('.' -> "__", upper case).
// Value type, immutable after resolve(); safe to share between threads.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "base/units.h"

namespace muster {

using ConfigValue = std::variant<bool, int64_t, double, std::string, std::vector<std::string>>;
std::string config_value_text(const ConfigValue& value);  // as TOML writes it

struct Setting {
  enum class Type {
    boolean,
    integer,
    real,
    text,
    text_list,
    bytes,
    duration
  };  // bytes and duration are integers

  std::string key;
  Type type;
  ConfigValue fallback;
  std::string help;
  std::optional<double> least, most;  // for numbers; in the base unit for bytes and durations
  std::vector<std::string> choices;   // for text: empty = any
};

class Schema {
 public:
  void boolean(std::string key, bool fallback, std::string help);
  void integer(std::string key, int64_t fallback, int64_t least, int64_t most, std::string help);
  void real(std::string key, double fallback, double least, double most, std::string help);
  void text(std::string key, std::string fallback, std::string help,
            std::vector<std::string> choices = {});
  void text_list(std::string key, std::vector<std::string> fallback, std::string help);
  void bytes(std::string key, Bytes fallback, Bytes least, Bytes most, std::string help);
  void duration(std::string key, Nanos fallback, Nanos least, Nanos most, std::string help);

  const Setting* find(std::string_view key) const;
  const std::map<std::string, Setting, std::less<>>& settings() const { return settings_; }
  // The valid key with the smallest edit distance.
  std::string nearest(std::string_view key) const;

 private:
  void add(Setting setting);
  std::map<std::string, Setting, std::less<>> settings_;
};

class Config {
 public:
  struct Entry {
    Setting::Type type;
    ConfigValue value;
    std::string origin;  // "default", "examples/x.toml:12", "MUSTER_STEPS", "--set steps=3"
  };
  struct Sources {
    std::string file_name;          // for messages; empty = no file
    std::string file_text;          // TOML
    std::vector<std::string> sets;  // "key=value", value in TOML syntax or bare text
    std::map<std::string, std::string> environment;
  };

  // Errors: invalid_argument with file:line, key, value, allowed range and the nearest valid key.
  static Result<Config> resolve(const Schema& schema, const Sources& sources);

  // The key must be in the schema with that type: anything else is a bug.
  bool boolean(std::string_view key) const;
  int64_t integer(std::string_view key) const;
  double real(std::string_view key) const;
  const std::string& text(std::string_view key) const;
  const std::vector<std::string>& text_list(std::string_view key) const;
  Bytes bytes(std::string_view key) const { return Bytes{integer(key)}; }
  Nanos duration(std::string_view key) const { return Nanos{integer(key)}; }

  const std::map<std::string, Entry, std::less<>>& entries() const { return entries_; }
  // Canonical TOML of all values, sorted by key, that resolve() reads back to the same values:
  // equal configurations give equal text.
  std::string to_toml() const;

 private:
  const ConfigValue& at(std::string_view key) const;
  std::map<std::string, Entry, std::less<>> entries_;
};

}  // namespace muster
