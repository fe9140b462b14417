#include "data/document_encoder.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "data/code_points.h"

namespace muster {

DocumentEncoder::DocumentEncoder(Encode encode, SpecialTokens special, double fim_rate,
                                 int64_t sequence_length)
    : encode_(std::move(encode)),
      special_(special),
      fim_rate_(fim_rate),
      sequence_length_(sequence_length) {
  MUSTER_CHECK(fim_rate == 0 || special.has_fim());
  MUSTER_CHECK(sequence_length >= 8, sequence_length);
}

void DocumentEncoder::append_fim(std::string_view window, uint64_t number, const FimKey& key,
                                 std::vector<int32_t>& ids, std::vector<int64_t>& starts) const {
  const FimPieces pieces = fim_cut(key, number, window);
  starts.push_back(static_cast<int64_t>(ids.size()));
  ids.push_back(special_.end_of_text);
  ids.push_back(special_.fim_suffix);
  encode_(pieces.suffix, ids);
  ids.push_back(special_.fim_prefix);
  encode_(pieces.prefix, ids);
  ids.push_back(special_.fim_middle);
  encode_(pieces.middle, ids);
}

void DocumentEncoder::append(std::string_view text, const FimKey& key, std::vector<int32_t>& ids,
                             std::vector<int64_t>& starts) const {
  const auto begin = ids.size();
  ids.push_back(special_.end_of_text);
  encode_(text, ids);
  if (fim_rate_ <= 0 || !fim_chosen(key, fim_rate_)) {
    starts.push_back(static_cast<int64_t>(begin));
    return;
  }
  // The plain form told how many tokens the text has; it is replaced by the windows.
  const auto tokens = static_cast<int64_t>(ids.size() - begin) - 1;
  ids.resize(begin);
  const int64_t room = sequence_length_ - 4;  // <|endoftext|> and the three fim tokens
  if (tokens <= room) {
    append_fim(text, 0, key, ids, starts);
    return;
  }
  // Nine tenths of the bytes that fit at this document's bytes per token: cutting costs a few
  // tokens more.
  const int64_t bytes = static_cast<int64_t>(text.size());
  const int64_t most = std::max<int64_t>(16, bytes / tokens * room * 9 / 10);
  uint64_t number = 0;
  while (!text.empty()) {
    auto length = static_cast<size_t>(std::min<int64_t>(most, static_cast<int64_t>(text.size())));
    if (length < text.size()) {
      const size_t line = text.rfind('\n', length - 1);
      if (line != std::string_view::npos && line + 1 > length / 2) length = line + 1;
      // Never inside a code point.
      while (length > 0 && length < text.size() && !is_code_point_start(text, length)) --length;
    }
    append_fim(text.substr(0, length), number++, key, ids, starts);
    text.remove_prefix(length);
  }
}

}  // namespace muster
