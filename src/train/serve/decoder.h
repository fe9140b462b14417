// Decoder: a model and the keys and values of one sequence it has read so far, so that each further
// token costs one row instead of the whole sequence. In strict mode the logits have the bits of a
// full forward pass over the same tokens.
//
// Memory: the cache is made once, for `capacity` tokens. One caller at a time; exec.arena must hold
// StraightPass::arena_bytes(spec, capacity, threads).
#pragma once

#include <span>
#include <vector>

#include "train/model/attention_block.h"
#include "train/model/model.h"

namespace muster {

template <class T>
class Decoder {
 public:
  // `model` and `exec` must outlive the decoder. capacity is in [1, context]. Errors: no_space with
  // the size of the cache.
  static Result<Decoder> make(const Model<T>& model, ops::Exec& exec, int64_t capacity);
  // The same where the memory is known to be there.
  Decoder(const Model<T>& model, ops::Exec& exec, int64_t capacity);

  static int64_t cache_bytes(const ModelConfig& config, int64_t capacity);

  int64_t length() const { return length_; }
  int64_t capacity() const { return capacity_; }
  void clear() { length_ = 0; }

  // Reads a whole prompt into an empty cache; then logits() are those after its last token. Errors:
  // invalid_argument for an empty or too long prompt, an id outside the vocabulary.
  Status read(std::span<const int32_t> prompt);
  // Reads one token. Errors: no_space when the cache is full, invalid_argument for an id outside
  // the vocabulary.
  Status append(int32_t id);

  std::span<const T> logits() const { return logits_; }

 private:
  KvView<T> cache(int layer);
  Ctx<T> context(const BatchView& batch, int block) const;
  void run(std::span<const int32_t> ids);
  Status check_id(int32_t id) const;

  const Model<T>& model_;
  ops::Exec& exec_;
  int64_t capacity_, length_ = 0;
  std::vector<T> keys_, values_;  // [layers, G, capacity, c]
  std::vector<T> rows_[2];        // activations of the tokens being read
  std::vector<int32_t> positions_;
  std::vector<T> logits_;
};

}  // namespace muster
