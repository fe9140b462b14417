// Validation: loss on the held-out documents, in bits per byte. The held-out text is cut into
// sequences like training data but without fill-in-the-middle; each rank scores every world-th
// sequence, and the sums are added in the order of the sequences, so the result has the same bits
// for any number of ranks.
#pragma once

#include <vector>

#include "base/result.h"
#include "comm/communicator.h"
#include "train/evals/text_loss.h"
#include "train/loop/warm.h"
#include "train/model/straight_pass.h"

namespace muster {

// Appends the document `text` to `group` so that its first `wanted` tokens are right; of a text
// that has many more, only a head is encoded.
void append_first_tokens(const DocumentEncoder& encoder, std::string_view text, int64_t wanted,
                         PackedGroup& group);

class Validation {
 public:
  // At most `most_sequences` (0 = all), the first ones. Errors: reading the corpus.
  static Result<Validation> make(const Warm& warm, int64_t most_sequences);

  bool empty() const { return sequences_ == 0; }
  // Collective: every rank calls it at the same step. Errors: those of the communicator.
  Result<TextLoss> run(ops::Exec& exec, StraightPass<float>& pass, Communicator& group) const;

 private:
  PackedGroup text_;
  std::vector<int32_t> token_bytes_;  // by id
  int64_t sequences_ = 0, length_ = 0;
  int32_t end_of_text_ = 0;
};

}  // namespace muster
