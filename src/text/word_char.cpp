#include "text/word_char.h"

#include <algorithm>
#include <iterator>

namespace muster {

namespace {
struct Range {
  uint32_t first, last;
};
#include "text/word_char_table.inc"
}  // namespace

bool is_word_char(uint32_t code_point) {
  const Range* range = std::lower_bound(std::begin(kWordRanges), std::end(kWordRanges), code_point,
                                        [](const Range& r, uint32_t c) { return r.last < c; });
  return range != std::end(kWordRanges) && range->first <= code_point;
}

}  // namespace muster
