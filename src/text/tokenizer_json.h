// tokenizer.json, the exchange format of the `tokenizers` library, for byte-level BPE. Read: the
// splitting patterns of split.h as a ByteLevel or a Split + ByteLevel pre-tokenizer, merges as
// strings or pairs, ignore_merges, added tokens with their flags, ByteLevel and TemplateProcessing
// post-processors. Anything else that would change ids is refused by name; a post-processor of
// another kind is kept and refused only when it is to be applied. Written: a file that the library
// reads and that gives the same ids. Any thread.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"
#include "sys/files.h"
#include "text/tokenizer.h"

namespace muster {

// Errors: corrupt (not JSON, or not shaped like a tokenizer), unsupported (a feature by name),
// invalid_argument (contradictions inside).
Result<Tokenizer> tokenizer_from_json(std::string_view json);

std::string tokenizer_to_json(const Tokenizer& tokenizer);

Result<Tokenizer> read_tokenizer(Files& files, std::string_view path);
Status write_tokenizer(Files& files, std::string_view path, const Tokenizer& tokenizer);

}  // namespace muster
