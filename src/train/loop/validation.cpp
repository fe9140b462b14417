#include "train/loop/validation.h"

#include <algorithm>

#include "data/code_points.h"

namespace muster {

void append_first_tokens(const DocumentEncoder& encoder, std::string_view text, int64_t wanted,
                         PackedGroup& group) {
  constexpr size_t kBytesPerToken = 16;  // more than text of any kind has on average
  const size_t ids = group.ids.size(), starts = group.starts.size();
  for (size_t bytes = static_cast<size_t>(wanted) * kBytesPerToken;; bytes *= 2) {
    size_t length = std::min(bytes, text.size());
    while (length < text.size() && !is_code_point_start(text, length)) --length;
    encoder.append(text.substr(0, length), {}, group.ids, group.starts);
    // A cut changes tokens beside it alone, and these are not wanted.
    const bool enough = group.ids.size() - ids >= 2 * static_cast<size_t>(wanted);
    if (length == text.size() || enough) return;
    group.ids.resize(ids);
    group.starts.resize(starts);
  }
}

Result<Validation> Validation::make(const Warm& warm, int64_t most_sequences) {
  Validation validation;
  validation.length_ = warm.shape.sequence_length;
  validation.end_of_text_ = warm.special.end_of_text;
  const DocumentEncoder encoder = warm.make_encoder(0);
  const int64_t documents = warm.corpus.size(Corpus::Part::held_out);
  for (int64_t i = 0; i < documents; ++i) {
    MUSTER_TRY(const std::string text,
               warm.corpus.read(Corpus::Part::held_out, i).context("read held-out data"));
    if (most_sequences == 0) {
      encoder.append(text, {}, validation.text_.ids, validation.text_.starts);
      continue;
    }
    // One token more than the sequences hold: the last one's target.
    const auto have = static_cast<int64_t>(validation.text_.ids.size());
    const int64_t wanted = most_sequences * validation.length_ + 1 - have;
    append_first_tokens(encoder, text, wanted, validation.text_);
    if (validation.text_.sequences(validation.length_) > most_sequences) break;
  }
  validation.sequences_ = validation.text_.sequences(validation.length_);
  if (most_sequences > 0) validation.sequences_ = std::min(validation.sequences_, most_sequences);
  validation.token_bytes_ = text_bytes_by_id(warm.tokenizer);
  return validation;
}

Result<TextLoss> Validation::run(ops::Exec& exec, StraightPass<float>& pass,
                                 Communicator& group) const {
  // Each sequence's sum is one rank's; zeros of the others do not change it.
  std::vector<double> sums(static_cast<size_t>(sequences_), 0.0);
  std::vector<int64_t> counts = {0, 0};  // tokens, bytes
  std::vector<float> losses(static_cast<size_t>(length_));
  PackedRows rows;
  for (int64_t s = group.rank().value; s < sequences_; s += group.world()) {
    rows.clear();
    append_sequence(text_, s, length_, end_of_text_, rows);
    BatchView batch;
    batch.tokens = length_;
    batch.ids = rows.tokens.data();
    batch.targets = rows.targets.data();
    batch.positions = rows.positions.data();
    batch.segments = rows.segments;
    pass.losses(exec, batch, losses.data());
    double sum = 0;
    for (size_t t = 0; t < losses.size(); ++t) {
      if (rows.targets[t] < 0) continue;
      sum += static_cast<double>(losses[t]);
      counts[0] += 1;
      counts[1] += token_bytes_[static_cast<size_t>(rows.targets[t])];
    }
    sums[static_cast<size_t>(s)] = sum;
  }
  if (!sums.empty()) MUSTER_TRY(group.all_reduce(std::span(sums), ReduceOp::sum).wait());
  MUSTER_TRY(group.all_reduce(std::span(counts), ReduceOp::sum).wait());
  TextLoss total{0, counts[0], counts[1]};
  for (const double sum : sums) total.nats += sum;
  return total;
}

}  // namespace muster
