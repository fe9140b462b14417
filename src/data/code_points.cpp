#include "data/code_points.h"

namespace muster {

std::vector<uint32_t> code_point_offsets(std::string_view text) {
  std::vector<uint32_t> offsets;
  offsets.reserve(text.size() + 1);
  for (size_t i = 0; i < text.size(); ++i) {
    if (is_code_point_start(text, i)) offsets.push_back(static_cast<uint32_t>(i));
  }
  offsets.push_back(static_cast<uint32_t>(text.size()));
  return offsets;
}

}  // namespace muster
