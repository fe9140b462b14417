// Lanes: slices that may overlap in any way, laid on as few tracks as needed so that within one
// track they nest. A viewer drops a slice that crosses another on its track; here none is dropped.
// Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace muster {

struct Slice {
  int64_t begin_ns = 0, end_ns = 0;
  size_t source = 0;  // the caller's: which event it is
};

// One edge of a track in the order in which it must be written.
struct SliceEdge {
  bool is_begin;
  int64_t time_ns;
  size_t source;
};

// result[lane] = balanced edges in order of time. Longer slices come first where several begin
// together. A slice that ends before it begins is taken as empty.
std::vector<std::vector<SliceEdge>> lay_on_lanes(std::vector<Slice> slices);

}  // namespace muster
