// JsonCursor: reads strict JSON (RFC 8259, UTF-8 checked) token by token, in one pass, without
// recursion and without building a tree, so that hostile text costs no more than its length. For
// formats whose grammar is known beforehand (safetensors headers).
//
// Not thread-safe. The text must outlive the cursor.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"

namespace muster {

class JsonCursor {
 public:
  // `what` names the text in errors ("header of x.safetensors").
  JsonCursor(std::string_view text, std::string what) : text_(text), what_(std::move(what)) {}

  void skip_space();
  // Skips white space, then takes `wanted` or fails.
  Status expect(char wanted);
  // Skips white space, then takes `wanted` if it is next.
  bool take(char wanted);
  bool at_end();  // only white space is left
  // A string, unescaped. Control characters, lone surrogates and invalid UTF-8 are refused.
  Result<std::string> string();
  // A non-negative integer: digits without sign, leading zero, fraction or exponent, below 2^64.
  Result<uint64_t> integer();

  // An error of this text at this place: "<what>: byte 12: <problem>".
  Error error(std::string_view problem) const;

 private:
  Status append_escape(std::string& out);
  Result<uint32_t> hex4();
  Status append_utf8_sequence(std::string& out);

  std::string_view text_;
  std::string what_;
  size_t at_ = 0;
};

}  // namespace muster
