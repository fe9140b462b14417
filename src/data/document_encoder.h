// DocumentEncoder: one document -> the token segments that training sees. A segment begins with
// <|endoftext|>, and attention never crosses from one to the next. A document is one segment; in
// fill-in-the-middle form it is one segment per window, a window being as much text as fits a
// sequence (a longer document would have its suffix, prefix and middle cut apart). No text is
// dropped: the windows together are the document.
//
// Pure: depends on (text, key) alone. Safe from one thread at a time (the tokenizer's cache).
#pragma once

#include <cstdint>
#include <functional>
#include <string_view>
#include <vector>

#include "data/fim.h"

namespace muster {

struct SpecialTokens {
  int32_t end_of_text = 0;
  int32_t fim_prefix = -1, fim_middle = -1, fim_suffix = -1;  // -1 = the vocabulary has none
  bool has_fim() const { return fim_prefix >= 0 && fim_middle >= 0 && fim_suffix >= 0; }
};

class DocumentEncoder {
 public:
  // Appends the ids of `text`, special text taken as plain text.
  using Encode = std::function<void(std::string_view text, std::vector<int32_t>& ids)>;

  // `fim_rate` > 0 needs the three fim tokens (checked).
  DocumentEncoder(Encode encode, SpecialTokens special, double fim_rate, int64_t sequence_length);

  // Appends the document's tokens to `ids`, and to `starts` the position in `ids` where each of its
  // segments begins.
  void append(std::string_view text, const FimKey& key, std::vector<int32_t>& ids,
              std::vector<int64_t>& starts) const;

  const SpecialTokens& special() const { return special_; }

 private:
  void append_fim(std::string_view window, uint64_t number, const FimKey& key,
                  std::vector<int32_t>& ids, std::vector<int64_t>& starts) const;

  Encode encode_;
  SpecialTokens special_;
  double fim_rate_;
  int64_t sequence_length_;
};

}  // namespace muster
