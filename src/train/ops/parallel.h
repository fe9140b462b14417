// parallel: ThreadTeam::parallel_for over a callable by reference, so that nothing is allocated.
#pragma once

#include <functional>

#include "train/ops/exec.h"

namespace muster::ops {

template <class Body>
void parallel(Exec& exec, int64_t n, int64_t grain, const Body& body) {
  exec.team.parallel_for(n, grain, std::cref(body));
}

}  // namespace muster::ops
