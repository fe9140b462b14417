// Word characters (\w of the reference's matcher of added tokens): letters, marks, decimal numbers,
// connector punctuation and joiners. Pinned to the reference like unicode_class.h. Pure; any
// thread.
#pragma once

#include <cstdint>

namespace muster {

bool is_word_char(uint32_t code_point);

}  // namespace muster
