// Splitting patterns: cut text into the pieces inside which merges happen. A pattern is recognised
// by its exact regular expression; the scanners here give what a backtracking regex engine gives,
// in one linear pass.
//
//   gpt2    's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
//   cl100k  (?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}|
//   ?[^\s\p{L}\p{N}]+[\r\n]*
//           |\s*[\r\n]+|\s+(?!\S)|\s+          (Llama 3 has the same)
//   qwen2   as cl100k with \p{N} in place of \p{N}{1,3}
//   none    the whole text is one piece
//
// Every pattern covers every character, so the pieces of a text concatenate to it. Text is valid
// UTF-8. Pure functions; any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace muster {

enum class SplitPattern : uint8_t { none, gpt2, cl100k, qwen2 };

std::string_view split_pattern_name(SplitPattern pattern);
// The expression as tokenizer.json carries it; empty for none.
std::string_view split_pattern_regex(SplitPattern pattern);
std::optional<SplitPattern> split_pattern_of_regex(std::string_view regex);

// The end of the piece that begins at `at` < text.size(). `text` is the whole segment: patterns
// look ahead, and its end counts as the end of text.
size_t next_piece(SplitPattern pattern, std::string_view text, size_t at);

// Ends of the next pieces from `at` on, at most `capacity` of them. Equal to repeated next_piece,
// and faster: ASCII runs are cut 64 bytes at a time. `level` picks the instructions (cpu_level.h).
enum class CpuLevel : uint8_t;
size_t next_pieces(SplitPattern pattern, std::string_view text, size_t at, size_t* ends,
                   size_t capacity, CpuLevel level);

}  // namespace muster
