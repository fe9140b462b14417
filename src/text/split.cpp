#include "text/split.h"

#include "text/cpu_level.h"
#include "text/split_blocks.h"
#include "text/split_scalar.h"

namespace muster {

namespace {

struct Named {
  SplitPattern pattern;
  std::string_view name, regex;
};
constexpr Named kPatterns[] = {
    {SplitPattern::none, "none", ""},
    {SplitPattern::gpt2, "gpt2",
     R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)"},
    {SplitPattern::cl100k, "cl100k",
     R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)"},
    {SplitPattern::qwen2, "qwen2",
     R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)"},
};

PieceEnd piece_end_of(SplitPattern pattern) {
  switch (pattern) {
    case SplitPattern::gpt2:
      return split_detail::piece_end<SplitPattern::gpt2>;
    case SplitPattern::cl100k:
      return split_detail::piece_end<SplitPattern::cl100k>;
    case SplitPattern::qwen2:
      return split_detail::piece_end<SplitPattern::qwen2>;
    case SplitPattern::none:
      break;
  }
  return split_detail::piece_end<SplitPattern::none>;
}

}  // namespace

std::string_view split_pattern_name(SplitPattern pattern) {
  return kPatterns[static_cast<size_t>(pattern)].name;
}

std::string_view split_pattern_regex(SplitPattern pattern) {
  return kPatterns[static_cast<size_t>(pattern)].regex;
}

std::optional<SplitPattern> split_pattern_of_regex(std::string_view regex) {
  for (const Named& known : kPatterns)
    if (!regex.empty() && known.regex == regex) return known.pattern;
  return std::nullopt;
}

size_t next_piece(SplitPattern pattern, std::string_view text, size_t at) {
  size_t end = 0;
  next_pieces(pattern, text, at, &end, 1, CpuLevel::scalar);
  return end;
}

size_t next_pieces(SplitPattern pattern, std::string_view text, size_t at, size_t* ends,
                   size_t capacity, CpuLevel level) {
  const auto* begin = reinterpret_cast<const uint8_t*>(text.data());
  const uint8_t* end = begin + text.size();
  const PieceEnd one = piece_end_of(pattern);
#if defined(__x86_64__)
  if (pattern != SplitPattern::none && level == CpuLevel::avx512)
    return next_pieces_avx512(pattern, one, begin, end, at, ends, capacity);
  if (pattern != SplitPattern::none && level == CpuLevel::avx2)
    return next_pieces_avx2(pattern, one, begin, end, at, ends, capacity);
#endif
  const uint8_t* p = begin + at;
  size_t n = 0;
  while (n < capacity && p < end) {
    p = one(p, end);
    ends[n++] = static_cast<size_t>(p - begin);
  }
  return n;
}

}  // namespace muster
