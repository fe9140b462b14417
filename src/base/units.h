// Quantities people write: byte counts ("64MiB", "1.5GB") and durations ("250ms", "2h"); parsing
// and printing.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/clock.h"
#include "base/result.h"

namespace muster {

struct Bytes {
  int64_t count = 0;
  auto operator<=>(const Bytes&) const = default;
};

// "0", "512", "64KiB", "1.5 GiB", "2MB" (decimal). Errors: invalid_argument names the text and the
// units known.
Result<Bytes> parse_bytes(std::string_view text);
// "250ns", "10us", "1.5ms", "2s", "3min", "4h", "1d". A bare number is refused: which unit?
Result<Nanos> parse_duration(std::string_view text);

// Three significant digits: "64.0 MiB", "1.23 s".
std::string format_bytes(Bytes bytes);
std::string format_duration(Nanos duration);
// "1.23 M": powers of 1,000.
std::string format_count(double count);

}  // namespace muster
