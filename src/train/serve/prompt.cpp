#include "train/serve/prompt.h"

#include <fmt/format.h>

namespace muster {
namespace {

Result<int32_t> special(const Tokenizer& tokenizer, std::string_view token) {
  const auto id = tokenizer.special_id(token);
  if (id) return static_cast<int32_t>(*id);
  return Error(
      Code::unsupported,
      fmt::format("the tokenizer has no token {}; this model was not trained with it", token));
}

Status append(const Tokenizer& tokenizer, std::string_view text, std::vector<int32_t>& ids) {
  MUSTER_TRY(check_text_size(text));
  for (uint32_t id : tokenizer.encode(text)) ids.push_back(static_cast<int32_t>(id));
  return {};
}

}  // namespace

Result<int32_t> end_of_text_id(const Tokenizer& tokenizer) {
  return special(tokenizer, kEndOfText);
}

Result<std::vector<int32_t>> completion_prompt(const Tokenizer& tokenizer, std::string_view text) {
  MUSTER_TRY(const int32_t end, end_of_text_id(tokenizer));
  std::vector<int32_t> ids = {end};
  MUSTER_TRY(append(tokenizer, text, ids));
  return ids;
}

Result<std::vector<int32_t>> infill_prompt(const Tokenizer& tokenizer, std::string_view prefix,
                                           std::string_view suffix) {
  MUSTER_TRY(const int32_t end, end_of_text_id(tokenizer));
  MUSTER_TRY(const int32_t suffix_mark, special(tokenizer, "<fim_suffix>"));
  MUSTER_TRY(const int32_t prefix_mark, special(tokenizer, "<fim_prefix>"));
  MUSTER_TRY(const int32_t middle_mark, special(tokenizer, "<fim_middle>"));
  std::vector<int32_t> ids = {end, suffix_mark};
  MUSTER_TRY(append(tokenizer, suffix, ids));
  ids.push_back(prefix_mark);
  MUSTER_TRY(append(tokenizer, prefix, ids));
  ids.push_back(middle_mark);
  return ids;
}

}  // namespace muster
