// Tokenizer: text <-> token ids by byte-level BPE, exactly as the `tokenizers` library does it for
// the same tokenizer.json. Encoder: the same for one thread with its caches, for volume.
//
// A Tokenizer is immutable: share one among threads (copies share the tables). Texts are below 4
// GiB. Special tokens inside the text given are text unless SpecialText::recognise is asked for;
// added tokens that are not special are always cut out, as in the reference. The post-processor's
// tokens (begin of text and the like) are added only on request: with_special_tokens().
//
// Not here: reading and writing tokenizer.json (tokenizer_json.h), training (bpe_trainer.h).
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/hash.h"
#include "base/result.h"
#include "text/added_tokens.h"
#include "text/split.h"

namespace muster {

// What a tokenizer is made of.
struct TokenizerParts {
  struct Entry {
    std::string text;  // in the byte alphabet, as tokenizer.json shows it
    uint32_t id = 0;
  };
  SplitPattern pattern = SplitPattern::gpt2;
  bool add_prefix_space = false;  // put a space before a part that does not begin with one
  bool ignore_merges = false;
  std::vector<Entry> vocabulary;                      // of the model, in any order
  std::vector<std::pair<uint32_t, uint32_t>> merges;  // pairs of ids, by rank
  std::vector<AddedToken> added;
  // What the post-processor puts around one text. Nothing: it does so in a way not supported here.
  std::optional<std::vector<uint32_t>> prefix = std::vector<uint32_t>{};
  std::optional<std::vector<uint32_t>> suffix = std::vector<uint32_t>{};
  std::string post_processor = "null";  // JSON, kept for writing
};

inline constexpr uint32_t kMaxTokenId = (1u << 21) - 1;
// Of all tokens together: tables address them in 27 bits.
inline constexpr size_t kMaxTokenBytes = size_t{1} << 25;
// Larger texts are a caller's bug: check_text_size.
inline constexpr uint64_t kMaxTextBytes = (uint64_t{1} << 32) - 64;

class Tokenizer {
 public:
  // Errors: invalid_argument (ids taken twice, too large or missing; merges that make no token),
  // unsupported.
  static Result<Tokenizer> make(TokenizerParts parts);

  // Every byte is a token and nothing merges: specials have ids 0, 1, …, then come bytes 0-255.
  static Result<Tokenizer> bytes(const std::vector<std::string>& specials);

  // Convenience for short texts; for volume keep an Encoder.
  std::vector<uint32_t> encode(std::string_view text,
                               SpecialText special = SpecialText::as_text) const;

  // `ids` with the post-processor's tokens around them. Errors: unsupported.
  Result<std::vector<uint32_t>> with_special_tokens(std::vector<uint32_t> ids) const;

  // The bytes behind `ids`, which may begin or end inside a character. Errors: invalid_argument for
  // an id without a token.
  Result<std::string> decode_bytes(std::span<const uint32_t> ids, bool skip_special) const;
  // The same as text: what is not UTF-8 becomes U+FFFD.
  Result<std::string> decode(std::span<const uint32_t> ids, bool skip_special = false) const;
  // The bytes of one token; nothing for an id without one.
  std::optional<std::string_view> token_bytes(uint32_t id) const;

  // One more than the largest id: rows an embedding needs.
  uint32_t vocabulary_size() const;
  // Id of an added token (special or not) by its content.
  std::optional<uint32_t> special_id(std::string_view content) const;

  // XXH3-128 of everything that decides ids and decoding: pattern, flags, vocabulary, merges, added
  // tokens. Equal after writing and reading back.
  Hash128 fingerprint() const;

  const TokenizerParts& parts() const;

 private:
  friend class Encoder;
  struct Tables;
  explicit Tokenizer(std::shared_ptr<const Tables> tables) : tables_(std::move(tables)) {}
  std::shared_ptr<const Tables> tables_;
};

// Whether Encoder::encode takes `text`: invalid UTF-8 grows to three times its size. Errors:
// invalid_argument with the size and the limit.
Status check_text_size(std::string_view text);

// Encodes many texts on one thread. Same ids as Tokenizer::encode, whatever was encoded before.
class Encoder {
 public:
  explicit Encoder(const Tokenizer& tokenizer);
  ~Encoder();
  Encoder(Encoder&&) noexcept;

  // Appends the ids of `text` to `out`. Invalid UTF-8 is read as Python's
  // bytes.decode("utf-8", "replace") reads it.
  void encode(std::string_view text, std::vector<uint32_t>& out,
              SpecialText special = SpecialText::as_text);

  // Replacement characters put in for invalid UTF-8 so far.
  size_t replaced() const;
  // Tokens tried and merges done so far outside the cache: work that grows linearly with text.
  uint64_t operations() const;

 private:
  friend class Tokenizer;
  struct State;
  explicit Encoder(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

// The ids of a whole text from outside, read as Encoder::encode reads it.
struct EncodedText {
  std::vector<uint32_t> ids;
  size_t replaced = 0;  // invalid UTF-8 sequences read as U+FFFD
};
// Errors: invalid_argument for a text of more than kMaxTextBytes.
Result<EncodedText> encode_text(const Tokenizer& tokenizer, std::string_view text,
                                SpecialText special);

// Turns ids that arrive one by one into text, holding back the bytes of an unfinished character.
class StreamDecoder {
 public:
  explicit StreamDecoder(Tokenizer tokenizer, bool skip_special)
      : tokenizer_(std::move(tokenizer)), skip_special_(skip_special) {}

  // The text that `id` completes. Errors: those of decode_bytes.
  Result<std::string> next(uint32_t id);
  // What was held back, as U+FFFD.
  std::string finish();

 private:
  Tokenizer tokenizer_;
  bool skip_special_;
  std::string pending_;
};

}  // namespace muster
