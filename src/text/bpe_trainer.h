// Training of a byte-level BPE vocabulary: the pair of tokens that is most frequent becomes a
// token, again and again.
//
// Ids: special tokens first, then the 256 bytes in the order of the characters that show them, then
// the merges. Of pairs equally frequent the one with the smaller (left id, right id) wins. This is
// the rule and the order of the reference's trainer with the byte alphabet given, so both make the
// same vocabulary; one case differs on purpose: a merge that would spell a special token is left
// out. The result depends on the texts as a set and the options alone: not on the number of
// threads.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "text/tokenizer.h"

namespace muster {

struct BpeTraining {
  uint32_t vocabulary_size = 4096;  // special tokens, bytes and merges
  std::vector<std::string> specials;
  SplitPattern pattern = SplitPattern::gpt2;
  int threads = 1;  // for counting; merging is one thread's work
};

// The special tokens of code models: end of text, then those of fill-in-the-middle form.
std::vector<std::string> code_specials();

// `texts` must be valid UTF-8. The vocabulary is smaller than asked for when the texts hold no
// further pair. Errors: invalid_argument for no text at all, a vocabulary_size without room for
// specials and bytes, or a special token that is empty, not UTF-8 or there twice.
Result<Tokenizer> train_bpe(std::span<const std::string_view> texts, const BpeTraining& options);

}  // namespace muster
