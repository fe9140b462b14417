// Samples: what the trained model writes, for people: two completions of held-out documents and one
// infilled function.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "train/loop/warm.h"
#include "train/model/model.h"

namespace muster {

struct Sample {
  std::string title;   // "completion", "infill"
  std::string before;  // prompt or prefix
  std::string text;    // what the model wrote
  std::string after;   // suffix of an infill
};

// A place in a text where a function's body can be cut out: from the line after its first `def`
// line to the next line that is not indented more than it. Empty pieces when the text has none.
struct FunctionCut {
  std::string before, body, after;
};
FunctionCut cut_function(const std::string& text, size_t most_bytes);

// At most `tokens` new tokens each, drawn at temperature 0.7, top-p 0.95, by `seed`. The infill
// only where the tokenizer has fill-in-the-middle tokens and a held-out document has a function.
// `exec.arena` must hold the decoder's scratch for one context. Errors: reading the corpus; those
// of generate.
Result<std::vector<Sample>> make_samples(const Warm& warm, const Model<float>& model,
                                         ops::Exec& exec, int64_t tokens, uint64_t seed);

}  // namespace muster
