// UTF-8 checks and code-point positions, as RFC 3629 defines them (no surrogates, no overlong
// forms).
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

namespace muster {

bool is_utf8(std::string_view text);

// Byte offset of every code point of valid UTF-8, then the length: size = code points + 1.
std::vector<uint32_t> code_point_offsets(std::string_view text);

}  // namespace muster
