// Added tokens: texts that are cut out before splitting and have an id of their own, by the
// reference's rules: leftmost longest match, first those that are matched in raw text, then in what
// is left those that are matched in normalized text; single_word, lstrip and rstrip move or cancel
// a match. Immutable once made; any thread.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "text/token_trie.h"

namespace muster {

struct AddedToken {
  std::string content;
  uint32_t id = 0;
  bool special = false;
  bool single_word = false;  // only where no word character stands beside it
  bool lstrip = false;       // takes the whitespace before it along
  bool rstrip = false;       // and after it
  bool normalized = false;
  bool operator==(const AddedToken&) const = default;
};

// What to do with the text of a special token inside the text given.
enum class SpecialText : uint8_t {
  as_text,    // it is text like any other: user data cannot forge a special token
  recognise,  // it becomes the token
};

class AddedTokens {
 public:
  explicit AddedTokens(std::vector<AddedToken> tokens = {});

  const std::vector<AddedToken>& tokens() const { return tokens_; }

  // Calls text(part) and token(id) in order, parts not empty, until `whole` is used up.
  void cut(std::string_view whole, SpecialText special,
           const std::function<void(std::string_view)>& text,
           const std::function<void(uint32_t)>& token) const;

 private:
  // One of the two passes.
  struct Pass {
    TokenTrie trie;  // index into tokens_
    bool first_byte[256] = {};
    bool any = false, any_not_special = false;
  };
  void cut_pass(const Pass& pass, std::string_view whole, SpecialText special,
                const std::function<void(std::string_view)>& text,
                const std::function<void(uint32_t)>& token) const;

  std::vector<AddedToken> tokens_;
  Pass raw_, normalized_;
};

}  // namespace muster
