#include "text/added_tokens.h"

#include <algorithm>

#include "text/unicode_class.h"
#include "text/utf8.h"
#include "text/word_char.h"

namespace muster {

namespace {

const uint8_t* bytes_of(std::string_view text) {
  return reinterpret_cast<const uint8_t*>(text.data());
}

// Start of the last character of `text`, which is not empty.
size_t last_char(std::string_view text) {
  size_t at = text.size() - 1;
  while ((static_cast<uint8_t>(text[at]) & 0xC0) == 0x80) --at;
  return at;
}

bool begins_with_word_char(std::string_view text) {
  return !text.empty() && is_word_char(decode_utf8(bytes_of(text)).code_point);
}

bool ends_with_word_char(std::string_view text) {
  return !text.empty() && is_word_char(decode_utf8(bytes_of(text) + last_char(text)).code_point);
}

bool is_space(std::string_view text, size_t at) {
  return char_class(decode_utf8(bytes_of(text) + at).code_point) == CharClass::space;
}

size_t without_trailing_spaces(std::string_view text) {
  while (!text.empty() && is_space(text, last_char(text))) text = text.substr(0, last_char(text));
  return text.size();
}

size_t leading_spaces(std::string_view text) {
  size_t at = 0;
  while (at < text.size() && is_space(text, at)) at += decode_utf8(bytes_of(text) + at).length;
  return at;
}

}  // namespace

AddedTokens::AddedTokens(std::vector<AddedToken> tokens) : tokens_(std::move(tokens)) {
  std::vector<std::pair<std::string_view, uint32_t>> raw, normalized;
  for (uint32_t i = 0; i < tokens_.size(); ++i) {
    const AddedToken& token = tokens_[i];
    Pass& pass = token.normalized ? normalized_ : raw_;
    (token.normalized ? normalized : raw).emplace_back(token.content, i);
    pass.first_byte[static_cast<uint8_t>(token.content[0])] = true;
    pass.any = true;
    pass.any_not_special |= !token.special;
  }
  raw_.trie = TokenTrie(std::move(raw));
  normalized_.trie = TokenTrie(std::move(normalized));
}

void AddedTokens::cut(std::string_view whole, SpecialText special,
                      const std::function<void(std::string_view)>& text,
                      const std::function<void(uint32_t)>& token) const {
  cut_pass(
      raw_, whole, special,
      [&](std::string_view part) { cut_pass(normalized_, part, special, text, token); }, token);
}

void AddedTokens::cut_pass(const Pass& pass, std::string_view whole, SpecialText special,
                           const std::function<void(std::string_view)>& text,
                           const std::function<void(uint32_t)>& token) const {
  const bool recognise = special == SpecialText::recognise;
  size_t from = 0;  // end of the last token
  if (recognise ? pass.any : pass.any_not_special) {
    size_t at = 0;
    while (at < whole.size()) {
      if (!pass.first_byte[static_cast<uint8_t>(whole[at])]) {
        ++at;
        continue;
      }
      uint32_t longest = TokenTrie::kNone;
      size_t stop = at;
      TokenTrie::Walk walk(pass.trie);
      for (size_t i = at; i < whole.size() && walk.step(static_cast<uint8_t>(whole[i])); ++i) {
        if (!walk.has_value()) continue;
        longest = walk.value();
        stop = i + 1;
      }
      if (longest == TokenTrie::kNone) {
        ++at;
        continue;
      }
      size_t start = at;
      at = stop;  // the search goes on behind the match, whether it counts or not
      const AddedToken& found = tokens_[longest];
      if (found.special && !recognise) continue;
      if (found.single_word && (ends_with_word_char(whole.substr(0, start)) ||
                                begins_with_word_char(whole.substr(stop))))
        continue;
      if (found.lstrip) start = std::max(without_trailing_spaces(whole.substr(0, start)), from);
      if (found.rstrip) stop += leading_spaces(whole.substr(stop));
      if (from < start) text(whole.substr(from, start - from));
      token(found.id);
      from = stop;
    }
  }
  if (from < whole.size()) text(whole.substr(from));
}

}  // namespace muster
