#include "text/tokenizer_json.h"

#include <algorithm>
#include <optional>
#include <unordered_map>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace muster {

namespace {

using Json = nlohmann::json;

Error corrupt(std::string message) {
  return Error(Code::corrupt, "tokenizer.json: " + std::move(message));
}
Error unsupported(std::string message) {
  return Error(Code::unsupported, "tokenizer.json: " + std::move(message));
}

const Json kNull;

// The member `name` of an object; null when it is missing or `object` is none.
const Json& member(const Json& object, const char* name) {
  if (!object.is_object()) return kNull;
  const auto found = object.find(name);
  return found == object.end() ? kNull : *found;
}

bool flag(const Json& object, const char* name, bool otherwise) {
  const Json& value = member(object, name);
  return value.is_boolean() ? value.get<bool>() : otherwise;
}

std::string word(const Json& object, const char* name) {
  const Json& value = member(object, name);
  return value.is_string() ? value.get<std::string>() : std::string();
}

Result<uint32_t> id_of(const Json& value, std::string_view whose) {
  if (!value.is_number_unsigned() || value.get<uint64_t>() > kMaxTokenId)
    return corrupt(fmt::format(
        "id of {} is {}, not an integer of 0 to {}", whose,
        value.dump(-1, ' ', true, Json::error_handler_t::replace).substr(0, 40), kMaxTokenId));
  return value.get<uint32_t>();
}

// A Sequence's members, or the one processor given.
std::vector<const Json*> steps_of(const Json& processor, const char* list) {
  if (processor.is_null()) return {};
  if (word(processor, "type") != "Sequence") return {&processor};
  std::vector<const Json*> steps;
  if (const Json& members = member(processor, list); members.is_array())
    for (const Json& step : members) steps.push_back(&step);
  return steps;
}

Status read_normalizer(const Json& root) {
  for (const Json* step : steps_of(member(root, "normalizer"), "normalizers"))
    return unsupported(fmt::format("normalizer {}; only none is supported", word(*step, "type")));
  return {};
}

Status read_pre_tokenizer(const Json& root, TokenizerParts& parts) {
  std::optional<SplitPattern> pattern;
  bool byte_level = false;
  for (const Json* step : steps_of(member(root, "pre_tokenizer"), "pretokenizers")) {
    const std::string type = word(*step, "type");
    if (byte_level) return unsupported("a pre-tokenizer after ByteLevel: " + type);
    if (type == "Split") {
      const std::string regex = word(member(*step, "pattern"), "Regex");
      const auto known = split_pattern_of_regex(regex);
      if (!known || pattern)
        return unsupported(
            fmt::format("splitting pattern {}; supported are those of gpt2, cl100k "
                        "(llama3) and qwen2, one at a time",
                        member(*step, "pattern").dump()));
      if (word(*step, "behavior") != "Isolated" || flag(*step, "invert", false))
        return unsupported("a Split pre-tokenizer that is not Isolated, or inverted");
      pattern = known;
    } else if (type == "ByteLevel") {
      byte_level = true;
      parts.add_prefix_space = flag(*step, "add_prefix_space", true);
      if (flag(*step, "use_regex", true)) {
        if (pattern) return unsupported("ByteLevel with use_regex after a Split");
        pattern = SplitPattern::gpt2;
      } else if (parts.add_prefix_space && pattern) {
        return unsupported("ByteLevel with add_prefix_space after a Split");
      }
    } else {
      return unsupported(
          fmt::format("pre-tokenizer '{}'; supported are Split and ByteLevel", type));
    }
  }
  if (!byte_level)
    return unsupported("no ByteLevel pre-tokenizer; only byte-level BPE is supported");
  parts.pattern = pattern.value_or(SplitPattern::none);
  return {};
}

// TemplateProcessing of one text: ids before and after it.
Status read_template(const Json& step, TokenizerParts& parts) {
  const Json& single = member(step, "single");
  const Json& specials = member(step, "special_tokens");
  if (!single.is_array()) return corrupt("TemplateProcessing without a list 'single'");
  bool behind = false;
  for (const Json& item : single) {
    if (member(item, "Sequence").is_object()) {
      if (behind) return corrupt("TemplateProcessing names the text twice");
      behind = true;
      continue;
    }
    const std::string name = word(member(item, "SpecialToken"), "id");
    const Json& ids = member(member(specials, name.c_str()), "ids");
    if (!ids.is_array()) return corrupt(fmt::format("TemplateProcessing: no ids for '{}'", name));
    for (const Json& id : ids) {
      MUSTER_TRY(const uint32_t value, id_of(id, "a template's token"));
      (behind ? parts.suffix : parts.prefix)->push_back(value);
    }
  }
  return {};
}

Status read_post_processor(const Json& root, TokenizerParts& parts) {
  const Json& processor = member(root, "post_processor");
  parts.post_processor = processor.dump();
  size_t templates = 0;
  for (const Json* step : steps_of(processor, "processors")) {
    const std::string type = word(*step, "type");
    if (type == "ByteLevel") continue;  // moves offsets only
    if (type == "TemplateProcessing" && templates++ == 0) {
      MUSTER_TRY(read_template(*step, parts));
    } else {
      parts.prefix.reset();
      parts.suffix.reset();
      return {};
    }
  }
  return {};
}

using Ids = std::unordered_map<std::string_view, uint32_t>;

Result<std::pair<uint32_t, uint32_t>> read_merge(const Json& merge, size_t rank, const Ids& ids) {
  std::string_view left, right;
  if (merge.is_string()) {
    const std::string_view text = merge.get_ref<const std::string&>();
    const size_t space = text.find(' ');
    if (space == std::string_view::npos || text.find(' ', space + 1) != std::string_view::npos)
      return corrupt(
          fmt::format("merge {} '{}' is not two tokens with a space between", rank, text));
    left = text.substr(0, space);
    right = text.substr(space + 1);
  } else if (merge.is_array() && merge.size() == 2 && merge[0].is_string() &&
             merge[1].is_string()) {
    left = merge[0].get_ref<const std::string&>();
    right = merge[1].get_ref<const std::string&>();
  } else {
    return corrupt(fmt::format("merge {} is neither \"a b\" nor [\"a\", \"b\"]", rank));
  }
  for (const std::string_view part : {left, right})
    if (!ids.contains(part))
      return corrupt(fmt::format("merge {}: '{}' is not in the vocabulary", rank, part));
  return std::pair{ids.at(left), ids.at(right)};
}

Status read_model(const Json& root, TokenizerParts& parts) {
  const Json& model = member(root, "model");
  const Json& type = member(model, "type");
  if (!model.is_object()) return corrupt("no 'model' object");
  if (!(type.is_null() || word(model, "type") == "BPE"))
    return unsupported(fmt::format("model '{}'; supported is BPE", word(model, "type")));
  if (!member(model, "vocab").is_object() || !member(model, "merges").is_array())
    return corrupt("model without 'vocab' object and 'merges' list");
  if (const Json& dropout = member(model, "dropout"); !dropout.is_null() && dropout != 0)
    return unsupported("model with dropout");
  for (const char* name : {"continuing_subword_prefix", "end_of_word_suffix"})
    if (!word(model, name).empty()) return unsupported(fmt::format("model with {}", name));
  parts.ignore_merges = flag(model, "ignore_merges", false);
  Ids ids;
  for (const auto& [text, id] : member(model, "vocab").items()) {
    MUSTER_TRY(const uint32_t value, id_of(id, fmt::format("token '{}'", text)));
    parts.vocabulary.push_back({text, value});
  }
  ids.reserve(parts.vocabulary.size());
  for (const auto& entry : parts.vocabulary) ids.emplace(entry.text, entry.id);
  for (const Json& merge : member(model, "merges")) {
    MUSTER_TRY(const auto pair, read_merge(merge, parts.merges.size(), ids));
    parts.merges.push_back(pair);
  }
  return {};
}

Status read_added(const Json& root, TokenizerParts& parts) {
  const Json& list = member(root, "added_tokens");
  if (list.is_null()) return {};
  if (!list.is_array()) return corrupt("'added_tokens' is not a list");
  for (const Json& item : list) {
    AddedToken token;
    token.content = word(item, "content");
    if (token.content.empty()) return corrupt("an added token without 'content'");
    MUSTER_TRY(token.id, id_of(member(item, "id"), fmt::format("added token '{}'", token.content)));
    token.special = flag(item, "special", false);
    token.single_word = flag(item, "single_word", false);
    token.lstrip = flag(item, "lstrip", false);
    token.rstrip = flag(item, "rstrip", false);
    token.normalized = flag(item, "normalized", !token.special);
    parts.added.push_back(std::move(token));
  }
  return {};
}

// The reference gives added tokens outside the vocabulary the next free ids, in the order of the
// list, whatever the file says; a file where that differs would mean other ids to it.
Status check_added_ids(const TokenizerParts& parts) {
  std::unordered_map<std::string_view, uint32_t> ids;
  for (const auto& entry : parts.vocabulary) ids.emplace(entry.text, entry.id);
  const auto model_size = static_cast<uint32_t>(parts.vocabulary.size());
  std::optional<uint32_t> largest;
  for (const AddedToken& token : parts.added) {
    const auto in_model = ids.find(token.content);
    const uint32_t expected = in_model != ids.end()               ? in_model->second
                              : largest && *largest >= model_size ? *largest + 1
                                                                  : model_size;
    if (token.id != expected)
      return unsupported(fmt::format("added token '{}' has id {}, where the next free one is {}",
                                     token.content, token.id, expected));
    largest = std::max(largest.value_or(0), token.id);
  }
  return {};
}

bool has_all_bytes(const Tokenizer& tokenizer) {
  bool have[256] = {};
  size_t count = 0;
  for (uint32_t id = 0; id < tokenizer.vocabulary_size(); ++id)
    if (const auto bytes = tokenizer.token_bytes(id); bytes && bytes->size() == 1)
      count += !std::exchange(have[static_cast<uint8_t>((*bytes)[0])], true);
  return count == 256;
}

}  // namespace

Result<Tokenizer> tokenizer_from_json(std::string_view json) {
  Json root;
  try {
    root = Json::parse(json);
  } catch (const Json::exception& error) {
    return corrupt(error.what());
  }
  if (!root.is_object()) return corrupt("not a JSON object");
  TokenizerParts parts;
  MUSTER_TRY(read_model(root, parts));
  MUSTER_TRY(read_normalizer(root));
  MUSTER_TRY(read_pre_tokenizer(root, parts));
  MUSTER_TRY(read_post_processor(root, parts));
  MUSTER_TRY(read_added(root, parts));
  MUSTER_TRY(check_added_ids(parts));
  MUSTER_TRY(Tokenizer tokenizer, Tokenizer::make(std::move(parts)));
  // What happens to bytes outside the vocabulary matters only if there are any.
  const Json& model = member(root, "model");
  if ((!member(model, "unk_token").is_null() || flag(model, "byte_fallback", false)) &&
      !has_all_bytes(tokenizer))
    return unsupported("unk_token or byte_fallback with bytes missing from the vocabulary");
  return tokenizer;
}

std::string tokenizer_to_json(const Tokenizer& tokenizer) {
  const TokenizerParts& parts = tokenizer.parts();
  const auto quoted = [](std::string_view text) { return Json(text).dump(); };
  std::string out = "{\n  \"version\": \"1.0\",\n  \"truncation\": null,\n  \"padding\": null,\n";
  out += "  \"added_tokens\": [";
  const char* separator = "";
  for (const AddedToken& t : parts.added) {
    out += fmt::format(
        "{}\n    {{\"id\": {}, \"content\": {}, \"single_word\": {}, \"lstrip\": {}, \"rstrip\": "
        "{}, "
        "\"normalized\": {}, \"special\": {}}}",
        separator, t.id, quoted(t.content), t.single_word, t.lstrip, t.rstrip, t.normalized,
        t.special);
    separator = ",";
  }
  out += "\n  ],\n  \"normalizer\": null,\n";
  const auto byte_level = [](bool prefix_space, bool regex) {
    return fmt::format(
        "{{\"type\": \"ByteLevel\", \"add_prefix_space\": {}, \"trim_offsets\": true, "
        "\"use_regex\": {}}}",
        prefix_space, regex);
  };
  if (parts.pattern == SplitPattern::gpt2 || parts.pattern == SplitPattern::none) {
    out += "  \"pre_tokenizer\": " +
           byte_level(parts.add_prefix_space, parts.pattern == SplitPattern::gpt2) + ",\n";
  } else {
    out += fmt::format(
        "  \"pre_tokenizer\": {{\"type\": \"Sequence\", \"pretokenizers\": [\n"
        "    {{\"type\": \"Split\", \"pattern\": {{\"Regex\": {}}}, \"behavior\": \"Isolated\", "
        "\"invert\": false}},\n    {}]}},\n",
        quoted(split_pattern_regex(parts.pattern)), byte_level(false, false));
  }
  out += "  \"post_processor\": " + parts.post_processor + ",\n";
  out += "  \"decoder\": " + byte_level(true, true) + ",\n";
  out += fmt::format(
      "  \"model\": {{\n    \"type\": \"BPE\",\n    \"dropout\": null,\n    \"unk_token\": null,\n"
      "    \"continuing_subword_prefix\": null,\n    \"end_of_word_suffix\": null,\n"
      "    \"fuse_unk\": false,\n    \"byte_fallback\": false,\n    \"ignore_merges\": {},\n"
      "    \"vocab\": {{",
      parts.ignore_merges);
  std::vector<const TokenizerParts::Entry*> entries;
  std::unordered_map<uint32_t, std::string_view> text_of;
  for (const auto& entry : parts.vocabulary) {
    entries.push_back(&entry);
    text_of.emplace(entry.id, entry.text);
  }
  std::sort(entries.begin(), entries.end(),
            [](const auto* a, const auto* b) { return a->id < b->id; });
  separator = "";
  for (const auto* entry : entries) {
    out += fmt::format("{}\n      {}: {}", separator, quoted(entry->text), entry->id);
    separator = ",";
  }
  out += "\n    },\n    \"merges\": [";
  separator = "";
  for (const auto& [left, right] : parts.merges) {
    out += fmt::format("{}\n      [{}, {}]", separator, quoted(text_of.at(left)),
                       quoted(text_of.at(right)));
    separator = ",";
  }
  out += "\n    ]\n  }\n}\n";
  return out;
}

Result<Tokenizer> read_tokenizer(Files& files, std::string_view path) {
  auto text = read_file(files, path);
  if (!text) return std::move(text).error().context(fmt::format("tokenizer {}", path));
  return tokenizer_from_json(*text).context(fmt::format("tokenizer {}", path));
}

Status write_tokenizer(Files& files, std::string_view path, const Tokenizer& tokenizer) {
  return write_file_durably(files, path, tokenizer_to_json(tokenizer));
}

}  // namespace muster
