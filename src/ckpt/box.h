// Box: a hyper-rectangle of a tensor, in elements. Saved and wanted layouts are sets of boxes.
// Pure functions on values.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace muster {

struct Box {
  std::vector<int64_t> offset, extent;  // one entry per dim; both empty for a scalar
  bool operator==(const Box&) const = default;
};

Box whole_box(const std::vector<int64_t>& shape);
// Of a box that is known to lie in a tensor whose size was checked: no overflow.
int64_t elements_of(const Box& box);
// "[0:4,2:8]", first element and one past the last of each dim.
std::string describe(const Box& box);
std::optional<Box> intersection(const Box& a, const Box& b);  // nothing if it holds no element
// Are the box's elements consecutive in the row-major tensor?
bool is_contiguous(const Box& box, const std::vector<int64_t>& shape);

// Same number of dims, no negative number, no end beyond the tensor. Errors: invalid_argument.
Status check_inside(const Box& box, const std::vector<int64_t>& shape, std::string_view name);
// Every element of the tensor lies in exactly one box. Errors: invalid_argument, naming the boxes
// that overlap or the number of elements missing.
Status check_coverage(const std::vector<Box>& boxes, const std::vector<int64_t>& shape,
                      std::string_view name);

// Rows of a box as runs of consecutive elements. Calls visit(run's first element in the tensor
// `outer` is laid out as, row-major; the same in `inner`; elements) for the part of both. `part`
// must lie inside both boxes. Runs come in row-major order.
template <class Visit>
void for_each_run(const Box& part, const Box& outer, const Box& inner, Visit visit);

}  // namespace muster

#include "ckpt/box_runs.h"
