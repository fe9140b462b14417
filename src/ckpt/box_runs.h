// The walk over the consecutive runs that two boxes share; part of box.h.
#pragma once

#include "ckpt/box.h"

namespace muster {

template <class Visit>
void for_each_run(const Box& part, const Box& outer, const Box& inner, Visit visit) {
  const size_t dims = part.extent.size();
  if (elements_of(part) == 0) return;
  // Trailing dims that are whole in both boxes melt into one run.
  size_t run_dim = dims;
  int64_t run = 1;
  while (run_dim > 0) {
    const size_t d = run_dim - 1;
    run *= part.extent[d];
    run_dim = d;
    if (part.extent[d] != outer.extent[d] || part.extent[d] != inner.extent[d]) break;
  }
  std::vector<int64_t> at(part.offset.begin(), part.offset.begin() + static_cast<int64_t>(run_dim));
  for (;;) {
    int64_t in_outer = 0, in_inner = 0;
    for (size_t d = 0; d < dims; ++d) {
      const int64_t index = d < run_dim ? at[d] : part.offset[d];
      in_outer = in_outer * outer.extent[d] + (index - outer.offset[d]);
      in_inner = in_inner * inner.extent[d] + (index - inner.offset[d]);
    }
    visit(in_outer, in_inner, run);
    size_t d = run_dim;
    while (d > 0 && ++at[d - 1] == part.offset[d - 1] + part.extent[d - 1]) {
      at[d - 1] = part.offset[d - 1];
      --d;
    }
    if (d == 0) return;
  }
}

}  // namespace muster
