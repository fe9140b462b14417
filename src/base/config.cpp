#include "base/config.h"

#include <fmt/format.h>

#include <toml++/toml.h>
#include <algorithm>
#include <cctype>
#include <limits>

namespace muster {
namespace {

std::string in_quotes(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\')
      out += '\\', out += c;
    else if (c == '\n')
      out += "\\n";
    else if (c == '\t')
      out += "\\t";
    else if (c == '\r')
      out += "\\r";
    else if (static_cast<unsigned char>(c) < 0x20)
      out += fmt::format("\\u{:04x}", static_cast<unsigned char>(c));
    else
      out += c;
  }
  return out + "\"";
}

size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t replaced = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({replaced, row[j] + 1, row[j - 1] + 1});
    }
  }
  return row[b.size()];
}

std::string_view type_name(Setting::Type type) {
  switch (type) {
    case Setting::Type::boolean:
      return "true or false";
    case Setting::Type::integer:
      return "an integer";
    case Setting::Type::real:
      return "a number";
    case Setting::Type::text:
      return "a text";
    case Setting::Type::text_list:
      return "a list of texts";
    case Setting::Type::bytes:
      return "a byte count such as \"64MiB\"";
    case Setting::Type::duration:
      return "a duration such as \"250ms\"";
  }
  return "?";
}

// A number in the unit a person would read.
std::string shown(const Setting& setting, double value) {
  if (setting.type == Setting::Type::bytes) return format_bytes(Bytes{static_cast<int64_t>(value)});
  if (setting.type == Setting::Type::duration)
    return format_duration(Nanos{static_cast<int64_t>(value)});
  return fmt::format("{:.12g}", value);
}

Result<ConfigValue> convert(const Setting& setting, const toml::node& node) {
  using Type = Setting::Type;
  const auto wrong = [&] {
    std::ostringstream seen;
    seen << toml::node_view<const toml::node>(node);
    return Error(Code::invalid_argument, fmt::format("{} must be {}, not {}", setting.key,
                                                     type_name(setting.type), seen.str()));
  };
  ConfigValue value;
  double number = 0;
  switch (setting.type) {
    case Type::boolean:
      if (!node.is_boolean()) return wrong();
      return ConfigValue(node.as_boolean()->get());
    case Type::integer:
      if (!node.is_integer()) return wrong();
      value = node.as_integer()->get();
      number = static_cast<double>(node.as_integer()->get());
      break;
    case Type::real:
      if (!node.is_number()) return wrong();
      number = *node.value<double>();
      value = number;
      break;
    case Type::text: {
      if (!node.is_string()) return wrong();
      const std::string& text = node.as_string()->get();
      const auto& choices = setting.choices;
      if (!choices.empty() && std::find(choices.begin(), choices.end(), text) == choices.end()) {
        return Error(Code::invalid_argument,
                     fmt::format("{} = {} is not one of: {}", setting.key, in_quotes(text),
                                 fmt::join(choices, ", ")));
      }
      return ConfigValue(text);
    }
    case Type::text_list: {
      if (!node.is_array()) return wrong();
      std::vector<std::string> list;
      for (const auto& item : *node.as_array()) {
        if (!item.is_string()) return wrong();
        list.push_back(item.as_string()->get());
      }
      return ConfigValue(std::move(list));
    }
    case Type::bytes:
    case Type::duration: {
      if (!node.is_string()) return wrong();
      const std::string& text = node.as_string()->get();
      int64_t count = 0;
      if (setting.type == Type::bytes) {
        MUSTER_TRY(const Bytes bytes, parse_bytes(text).context(setting.key));
        count = bytes.count;
      } else {
        MUSTER_TRY(const Nanos duration, parse_duration(text).context(setting.key));
        count = duration.count();
      }
      value = count;
      number = static_cast<double>(count);
      break;
    }
  }
  if (!(number >= setting.least.value_or(-std::numeric_limits<double>::infinity()) &&
        number <= setting.most.value_or(std::numeric_limits<double>::infinity()))) {
    return Error(
        Code::invalid_argument,
        fmt::format(
            "{} = {} is outside its range, {} to {}", setting.key, shown(setting, number),
            shown(setting, setting.least.value_or(-std::numeric_limits<double>::infinity())),
            shown(setting, setting.most.value_or(std::numeric_limits<double>::infinity()))));
  }
  return value;
}

Result<toml::table> parse_toml(std::string_view text, const std::string& name) {
  try {
    return toml::parse(text, name);
  } catch (const toml::parse_error& e) {
    return Error(Code::invalid_argument, fmt::format("{}:{}: {}", name, e.source().begin.line,
                                                     std::string(e.description())));
  }
}

// "optimizer.lr" of "MUSTER_OPTIMIZER__LR"; nothing of a variable that means no setting.
std::optional<std::string> key_of_environment(std::string_view name) {
  constexpr std::string_view kPrefix = "MUSTER_";
  if (!name.starts_with(kPrefix) || name.find("__") == std::string_view::npos) return std::nullopt;
  std::string key;
  for (size_t i = kPrefix.size(); i < name.size(); ++i) {
    if (name.substr(i, 2) == "__") {
      key += '.';
      ++i;
    } else {
      key += static_cast<char>(std::tolower(static_cast<unsigned char>(name[i])));
    }
  }
  return key;
}

}  // namespace

std::string config_value_text(const ConfigValue& value) {
  struct Writer {
    std::string operator()(bool b) const { return b ? "true" : "false"; }
    std::string operator()(int64_t i) const { return fmt::format("{}", i); }
    std::string operator()(double d) const {
      std::string text = fmt::format("{}", d);
      return text.find_first_of(".eni") == std::string::npos ? text + ".0" : text;
    }
    std::string operator()(const std::string& s) const { return in_quotes(s); }
    std::string operator()(const std::vector<std::string>& list) const {
      std::string text = "[";
      for (const auto& s : list) text += (text.size() > 1 ? ", " : "") + in_quotes(s);
      return text + "]";
    }
  };
  return std::visit(Writer{}, value);
}

void Schema::add(Setting setting) {
  const std::string key = setting.key;
  MUSTER_CHECK(settings_.emplace(key, std::move(setting)).second, key);
}
void Schema::boolean(std::string key, bool fallback, std::string help) {
  add({std::move(key), Setting::Type::boolean, fallback, std::move(help), {}, {}, {}});
}
void Schema::integer(std::string key, int64_t fallback, int64_t least, int64_t most,
                     std::string help) {
  add({std::move(key),
       Setting::Type::integer,
       fallback,
       std::move(help),
       static_cast<double>(least),
       static_cast<double>(most),
       {}});
}
void Schema::real(std::string key, double fallback, double least, double most, std::string help) {
  add({std::move(key), Setting::Type::real, fallback, std::move(help), least, most, {}});
}
void Schema::text(std::string key, std::string fallback, std::string help,
                  std::vector<std::string> choices) {
  add({std::move(key),
       Setting::Type::text,
       std::move(fallback),
       std::move(help),
       {},
       {},
       std::move(choices)});
}
void Schema::text_list(std::string key, std::vector<std::string> fallback, std::string help) {
  add({std::move(key), Setting::Type::text_list, std::move(fallback), std::move(help), {}, {}, {}});
}
void Schema::bytes(std::string key, Bytes fallback, Bytes least, Bytes most, std::string help) {
  add({std::move(key),
       Setting::Type::bytes,
       fallback.count,
       std::move(help),
       static_cast<double>(least.count),
       static_cast<double>(most.count),
       {}});
}
void Schema::duration(std::string key, Nanos fallback, Nanos least, Nanos most, std::string help) {
  add({std::move(key),
       Setting::Type::duration,
       int64_t{fallback.count()},
       std::move(help),
       static_cast<double>(least.count()),
       static_cast<double>(most.count()),
       {}});
}

const Setting* Schema::find(std::string_view key) const {
  const auto it = settings_.find(key);
  return it == settings_.end() ? nullptr : &it->second;
}

std::string Schema::nearest(std::string_view key) const {
  std::string best;
  size_t best_distance = std::numeric_limits<size_t>::max();
  for (const auto& [name, setting] : settings_) {
    // Compare the last parts too, so that "lr" finds "optimizer.lr".
    const size_t dot = name.rfind('.');
    size_t distance = edit_distance(key, name);
    if (dot != std::string::npos)
      distance = std::min(distance, edit_distance(key, name.substr(dot + 1)) + 1);
    if (distance < best_distance) best_distance = distance, best = name;
  }
  return best;
}

Result<Config> Config::resolve(const Schema& schema, const Sources& sources) {
  Config config;
  for (const auto& [key, setting] : schema.settings())
    config.entries_[key] = {setting.type, setting.fallback, "default"};

  const auto put = [&](const std::string& key, const toml::node& node,
                       const std::string& origin) -> Status {
    const Setting* setting = schema.find(key);
    if (setting == nullptr) {
      return Error(Code::invalid_argument, fmt::format("{}: unknown key '{}'; did you mean '{}'?",
                                                       origin, key, schema.nearest(key)));
    }
    MUSTER_TRY(auto value, convert(*setting, node).context(origin));
    config.entries_[key] = {setting->type, std::move(value), origin};
    return {};
  };

  if (!sources.file_name.empty()) {
    MUSTER_TRY(const toml::table table, parse_toml(sources.file_text, sources.file_name));
    // Tables nest to dotted keys; anything else is a value.
    const std::function<Status(const toml::table&, const std::string&)> walk =
        [&](const toml::table& t, const std::string& prefix) -> Status {
      for (const auto& [name, node] : t) {
        const std::string key = prefix + std::string(name.str());
        if (node.is_table()) {
          MUSTER_TRY(walk(*node.as_table(), key + "."));
        } else {
          MUSTER_TRY(
              put(key, node, fmt::format("{}:{}", sources.file_name, node.source().begin.line)));
        }
      }
      return {};
    };
    MUSTER_TRY(walk(table, ""));
  }

  // Text from outside TOML: a bare word is a string, unless the setting wants something else.
  const auto put_text = [&](const std::string& key, const std::string& text,
                            const std::string& origin) -> Status {
    const Setting* setting = schema.find(key);
    using Type = Setting::Type;
    const bool bare = setting != nullptr && !text.starts_with('"') && !text.starts_with('\'') &&
                      (setting->type == Type::text || setting->type == Type::bytes ||
                       setting->type == Type::duration);
    auto table = parse_toml("v = " + (bare ? in_quotes(text) : text), origin);
    if (!table.ok()) {
      return Error(Code::invalid_argument,
                   fmt::format("{}: {} must be {}", origin, key,
                               setting ? type_name(setting->type) : "a TOML value"));
    }
    return put(key, *table->get("v"), origin);
  };

  for (const auto& [name, value] : sources.environment) {
    const auto key = key_of_environment(name);
    if (key) MUSTER_TRY(put_text(*key, value, name));
  }
  for (const std::string& set : sources.sets) {
    const size_t equal = set.find('=');
    if (equal == std::string::npos) {
      return Error(Code::invalid_argument, fmt::format("--set {}: write --set key=value", set));
    }
    MUSTER_TRY(put_text(set.substr(0, equal), set.substr(equal + 1), "--set " + set));
  }
  return config;
}

const ConfigValue& Config::at(std::string_view key) const {
  const auto it = entries_.find(key);
  MUSTER_CHECK(it != entries_.end(), key);
  return it->second.value;
}
bool Config::boolean(std::string_view key) const {
  return std::get<bool>(at(key));
}
int64_t Config::integer(std::string_view key) const {
  return std::get<int64_t>(at(key));
}
double Config::real(std::string_view key) const {
  return std::get<double>(at(key));
}
const std::string& Config::text(std::string_view key) const {
  return std::get<std::string>(at(key));
}
const std::vector<std::string>& Config::text_list(std::string_view key) const {
  return std::get<std::vector<std::string>>(at(key));
}

std::string Config::to_toml() const {
  const auto text_of = [](const Entry& entry) {
    // Quantities are written in their base unit, so that no digit is lost.
    if (entry.type == Setting::Type::bytes)
      return fmt::format("\"{}B\"", std::get<int64_t>(entry.value));
    if (entry.type == Setting::Type::duration)
      return fmt::format("\"{}ns\"", std::get<int64_t>(entry.value));
    return config_value_text(entry.value);
  };
  std::string text;
  for (const auto& [key, entry] : entries_) text += fmt::format("{} = {}\n", key, text_of(entry));
  return text;
}

}  // namespace muster
