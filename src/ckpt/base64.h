// Base64 (RFC 4648, with padding) for bytes inside JSON: checksum lists, opaque cursors.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace muster {

std::string base64_encode(std::string_view bytes);
// Nothing unless `text` is exactly what base64_encode gives for some bytes.
std::optional<std::string> base64_decode(std::string_view text);

}  // namespace muster
