// Text made safe for HTML, SVG and Markdown, and numbers as people read them. Pure.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace muster {

// For element content and for attribute values in double quotes. Characters that XML forbids become
// U+FFFD, as do bytes that are not UTF-8.
std::string escape_html(std::string_view text);
// For a cell of a Markdown table: one line, nothing that Markdown or HTML would act on.
std::string escape_markdown(std::string_view text);
// A fence longer than any run of backticks in `text`.
std::string markdown_code_block(std::string_view text);

// Round numbers that cover [low, high]: 4 to 9 of them, steps of 1, 2 or 5 times a power of ten.
std::vector<double> nice_ticks(double low, double high);
// "1234", "0.25", "1.2e-05": enough digits to tell ticks apart.
std::string tick_text(double value);
// "3 min 05 s", "12.3 s", "45 ms"
std::string span_text(double seconds);
// "12 345"
std::string grouped(long long value);

}  // namespace muster
