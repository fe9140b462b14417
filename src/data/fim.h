// Fill-in-the-middle on text (Bavarian et al., "Efficient Training of Language Models to Fill in
// the Middle", arXiv 2207.14255): a document is cut at two code-point positions into prefix,
// middle, suffix and shown to the model as <fim_suffix> suffix <fim_prefix> prefix <fim_middle>
// middle. Everything is a pure function of (seed, epoch, document id, window): no state, the same
// whoever computes it.
#pragma once

#include <cstdint>
#include <string_view>

namespace muster {

struct FimKey {
  uint64_t seed = 0, epoch = 0, document = 0;
};

// Whether the document is shown in fill-in-the-middle form; true for a share `rate` of documents.
bool fim_chosen(const FimKey& key, double rate);

struct FimPieces {
  std::string_view prefix, middle, suffix;  // together the text
};

// Both cuts are drawn uniformly from the code-point boundaries of `text` (valid UTF-8), ends
// included.
FimPieces fim_cut(const FimKey& key, uint64_t window, std::string_view text);

}  // namespace muster
