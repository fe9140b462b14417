// LineAssembler: makes whole labelled lines of the bytes of one stream, however they were cut by
// writes and reads. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace muster {

inline constexpr size_t kLongestLine = 64 << 10;  // longer ones are cut, each part labelled

class LineAssembler {
 public:
  explicit LineAssembler(std::string label) : label_(std::move(label)) {}

  // Appends to `out` every line that is complete now, each behind the label.
  void feed(std::string_view bytes, std::string& out);

  // Bytes of a line that has not ended yet.
  bool pending() const { return !pending_.empty(); }
  // Appends them behind the label and a newline: the stream has ended, or somebody waits to see
  // them. What follows is a line of its own.
  void flush(std::string& out);

 private:
  std::string label_;
  std::string pending_;
};

// `count` last lines of `text`.
std::vector<std::string> last_lines_of(std::string_view text, size_t count);

// Replaces ${rank}, ${local_rank} and ${role_name}.
std::string expand_label(std::string_view pattern, int32_t rank, int32_t local_rank,
                         std::string_view role);

}  // namespace muster
