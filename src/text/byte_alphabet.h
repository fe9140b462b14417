// The byte alphabet of byte-level BPE: tokenizer.json writes each byte of a token as one printable
// character (printable Latin-1 bytes as themselves, the others as U+0100 and on, in order).
// Pure functions; any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace muster {

// The character that stands for `byte`.
uint32_t alphabet_char(uint8_t byte);

// The text that tokenizer.json shows for `bytes`.
std::string to_alphabet(std::string_view bytes);

// The bytes behind such a text; nothing when a character is outside the alphabet (or not UTF-8).
std::optional<std::string> from_alphabet(std::string_view text);

}  // namespace muster
