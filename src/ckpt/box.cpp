#include "ckpt/box.h"

#include <algorithm>
#include <numeric>

namespace muster {

Box whole_box(const std::vector<int64_t>& shape) {
  return {std::vector<int64_t>(shape.size(), 0), shape};
}

int64_t elements_of(const Box& box) {
  return std::accumulate(box.extent.begin(), box.extent.end(), int64_t{1}, std::multiplies<>());
}

std::string describe(const Box& box) {
  std::string text = "[";
  for (size_t d = 0; d < box.offset.size(); ++d) {
    if (d > 0) text += ',';
    text += std::to_string(box.offset[d]) + ":" + std::to_string(box.offset[d] + box.extent[d]);
  }
  return text + "]";
}

std::optional<Box> intersection(const Box& a, const Box& b) {
  Box part;
  for (size_t d = 0; d < a.offset.size(); ++d) {
    const int64_t begin = std::max(a.offset[d], b.offset[d]);
    const int64_t end = std::min(a.offset[d] + a.extent[d], b.offset[d] + b.extent[d]);
    if (begin >= end) return std::nullopt;
    part.offset.push_back(begin);
    part.extent.push_back(end - begin);
  }
  return part;
}

bool is_contiguous(const Box& box, const std::vector<int64_t>& shape) {
  size_t d = 0;
  while (d < shape.size() && box.extent[d] == 1) ++d;
  for (++d; d < shape.size(); ++d)
    if (box.extent[d] != shape[d]) return elements_of(box) == 0;
  return true;
}

Status check_inside(const Box& box, const std::vector<int64_t>& shape, std::string_view name) {
  const auto wrong = [&](const char* problem) {
    return Error(Code::invalid_argument, "tensor '" + std::string(name) + "' of shape " +
                                             describe(whole_box(shape)) + ": a box " + problem);
  };
  if (box.offset.size() != shape.size() || box.extent.size() != shape.size())
    return wrong("has another number of dims");
  for (size_t d = 0; d < shape.size(); ++d) {
    if (box.offset[d] < 0 || box.extent[d] < 0) return wrong("has a negative number");
    if (box.offset[d] > shape[d] || box.extent[d] > shape[d] - box.offset[d])
      return wrong("ends outside the tensor");
  }
  return {};
}

Status check_coverage(const std::vector<Box>& boxes, const std::vector<int64_t>& shape,
                      std::string_view name) {
  int64_t covered = 0;
  std::vector<const Box*> sorted;
  for (const Box& box : boxes) {
    MUSTER_TRY(check_inside(box, shape, name));
    const int64_t elements = elements_of(box);
    if (__builtin_add_overflow(covered, elements, &covered))
      return Error(Code::invalid_argument, "tensor '" + std::string(name) + "': boxes overlap");
    if (elements > 0) sorted.push_back(&box);
  }
  // Sweep over dim 0: only boxes whose ranges of rows meet are compared.
  const auto first_row = [](const Box* box) { return box->offset.empty() ? 0 : box->offset[0]; };
  const auto end_row = [](const Box* box) {
    return box->offset.empty() ? 1 : box->offset[0] + box->extent[0];
  };
  std::sort(sorted.begin(), sorted.end(),
            [&](const Box* a, const Box* b) { return first_row(a) < first_row(b); });
  std::vector<const Box*> open;
  for (const Box* box : sorted) {
    std::erase_if(open, [&](const Box* other) { return end_row(other) <= first_row(box); });
    for (const Box* other : open) {
      if (intersection(*box, *other))
        return Error(Code::invalid_argument, "tensor '" + std::string(name) + "': boxes " +
                                                 describe(*other) + " and " + describe(*box) +
                                                 " overlap");
    }
    open.push_back(box);
  }
  const int64_t wanted = elements_of(whole_box(shape));
  if (covered != wanted)
    return Error(Code::invalid_argument, "tensor '" + std::string(name) + "': boxes cover " +
                                             std::to_string(covered) + " of " +
                                             std::to_string(wanted) + " elements");
  return {};
}

}  // namespace muster
