// Prompts as training shows documents: <|endoftext|> first, then the text; in fill-in-the-middle
// form (Mellum's suffix-prefix-middle order) <fim_suffix> suffix <fim_prefix> prefix <fim_middle>,
// and the model writes the middle up to the next <|endoftext|>. Special text inside the user's text
// stays text.
#pragma once

#include <string_view>
#include <vector>

#include "base/result.h"
#include "text/tokenizer.h"

namespace muster {

inline constexpr std::string_view kEndOfText = "<|endoftext|>";

// Errors: unsupported when the tokenizer lacks <|endoftext|>. Both prompts also: invalid_argument
// for a text that is too large to encode (check_text_size).
Result<int32_t> end_of_text_id(const Tokenizer& tokenizer);
Result<std::vector<int32_t>> completion_prompt(const Tokenizer& tokenizer, std::string_view text);
// Errors: unsupported, naming the fim token that the tokenizer lacks.
Result<std::vector<int32_t>> infill_prompt(const Tokenizer& tokenizer, std::string_view prefix,
                                           std::string_view suffix);

}  // namespace muster
