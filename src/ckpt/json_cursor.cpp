#include "ckpt/json_cursor.h"

namespace muster {

static void append_code_point(std::string& out, uint32_t c) {
  if (c < 0x80) {
    out += static_cast<char>(c);
  } else if (c < 0x800) {
    out += static_cast<char>(0xC0 | c >> 6);
    out += static_cast<char>(0x80 | (c & 0x3F));
  } else if (c < 0x10000) {
    out += static_cast<char>(0xE0 | c >> 12);
    out += static_cast<char>(0x80 | (c >> 6 & 0x3F));
    out += static_cast<char>(0x80 | (c & 0x3F));
  } else {
    out += static_cast<char>(0xF0 | c >> 18);
    out += static_cast<char>(0x80 | (c >> 12 & 0x3F));
    out += static_cast<char>(0x80 | (c >> 6 & 0x3F));
    out += static_cast<char>(0x80 | (c & 0x3F));
  }
}

Error JsonCursor::error(std::string_view problem) const {
  return Error(Code::corrupt,
               what_ + ": byte " + std::to_string(at_) + ": " + std::string(problem));
}

void JsonCursor::skip_space() {
  while (at_ < text_.size() &&
         (text_[at_] == ' ' || text_[at_] == '\t' || text_[at_] == '\n' || text_[at_] == '\r'))
    ++at_;
}

bool JsonCursor::take(char wanted) {
  skip_space();
  if (at_ >= text_.size() || text_[at_] != wanted) return false;
  ++at_;
  return true;
}

Status JsonCursor::expect(char wanted) {
  if (take(wanted)) return {};
  return error(std::string("'") + wanted + "' expected");
}

bool JsonCursor::at_end() {
  skip_space();
  return at_ == text_.size();
}

Result<uint64_t> JsonCursor::integer() {
  skip_space();
  const size_t start = at_;
  uint64_t value = 0;
  while (at_ < text_.size() && text_[at_] >= '0' && text_[at_] <= '9') {
    if (__builtin_mul_overflow(value, 10, &value) ||
        __builtin_add_overflow(value, static_cast<uint64_t>(text_[at_] - '0'), &value))
      return error("integer above 2^64");
    ++at_;
  }
  if (at_ == start) return error("non-negative integer expected");
  if (text_[start] == '0' && at_ - start > 1) return error("integer with a leading zero");
  if (at_ < text_.size() && (text_[at_] == '.' || text_[at_] == 'e' || text_[at_] == 'E'))
    return error("integer expected, not a fraction");
  return value;
}

Result<uint32_t> JsonCursor::hex4() {
  if (text_.size() - at_ < 4) return error("\\u needs four hexadecimal digits");
  uint32_t value = 0;
  for (int i = 0; i < 4; ++i) {
    const char c = text_[at_];
    const int digit = c >= '0' && c <= '9'   ? c - '0'
                      : c >= 'a' && c <= 'f' ? c - 'a' + 10
                      : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                             : -1;
    if (digit < 0) return error("\\u needs four hexadecimal digits");
    value = value * 16 + static_cast<uint32_t>(digit);
    ++at_;
  }
  return value;
}

Status JsonCursor::append_escape(std::string& out) {
  if (at_ >= text_.size()) return error("text ends inside an escape");
  const char kind = text_[at_++];
  const std::string_view simple = "\"\\/bfnrt", meaning = "\"\\/\b\f\n\r\t";
  if (const size_t index = simple.find(kind); index != std::string_view::npos) {
    out += meaning[index];
    return {};
  }
  if (kind != 'u') return error("unknown escape");
  MUSTER_TRY(uint32_t code, hex4());
  if (code >= 0xDC00 && code < 0xE000) return error("lone low surrogate");
  if (code >= 0xD800 && code < 0xDC00) {
    if (text_.substr(at_, 2) != "\\u") return error("lone high surrogate");
    at_ += 2;
    MUSTER_TRY(const uint32_t low, hex4());
    if (low < 0xDC00 || low >= 0xE000) return error("lone high surrogate");
    code = 0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00);
  }
  append_code_point(out, code);
  return {};
}

// Well-formed sequences only (Unicode 15, table 3-7): no overlong forms, no surrogates, at most
// U+10FFFF.
Status JsonCursor::append_utf8_sequence(std::string& out) {
  const auto byte = [&](size_t i) {
    return at_ + i < text_.size() ? static_cast<uint8_t>(text_[at_ + i]) : uint8_t{0};
  };
  const uint8_t lead = byte(0);
  const size_t length = lead < 0xC2 ? 0 : lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : lead < 0xF5 ? 4 : 0;
  if (length == 0) return error("invalid UTF-8");
  const uint8_t low = lead == 0xE0 ? 0xA0 : lead == 0xF0 ? 0x90 : 0x80;
  const uint8_t high = lead == 0xED ? 0x9F : lead == 0xF4 ? 0x8F : 0xBF;
  if (byte(1) < low || byte(1) > high) return error("invalid UTF-8");
  for (size_t i = 2; i < length; ++i)
    if ((byte(i) & 0xC0) != 0x80) return error("invalid UTF-8");
  out.append(text_.substr(at_, length));
  at_ += length;
  return {};
}

Result<std::string> JsonCursor::string() {
  MUSTER_TRY(expect('"'));
  std::string out;
  for (;;) {
    const size_t start = at_;
    while (at_ < text_.size() && text_[at_] != '"' && text_[at_] != '\\' && text_[at_] >= 0x20 &&
           text_[at_] < 0x7F)
      ++at_;
    out.append(text_.substr(start, at_ - start));
    if (at_ >= text_.size()) return error("text ends inside a string");
    const auto c = static_cast<uint8_t>(text_[at_]);
    if (c == '"') {
      ++at_;
      return out;
    }
    if (c == '\\') {
      ++at_;
      MUSTER_TRY(append_escape(out));
    } else if (c < 0x20) {
      return error("control character inside a string");
    } else if (c == 0x7F) {
      out += static_cast<char>(c);
      ++at_;
    } else {
      MUSTER_TRY(append_utf8_sequence(out));
    }
  }
}

}  // namespace muster
