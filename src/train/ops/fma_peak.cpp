#include "train/ops/fma_peak.h"

#include <time.h>

#include <algorithm>

namespace muster::ops {
namespace {

// CPU time of this thread: other threads on a shared core do not count.
double thread_seconds() {
  timespec t{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

float chains(Isa isa, int64_t rounds) {
  if (isa == Isa::avx512) return fma_chains_avx512(rounds);
  return isa == Isa::avx2 ? fma_chains_avx2(rounds) : fma_chains_scalar(rounds);
}

}  // namespace

double measure_fma_peak(Isa isa) {
  constexpr double kSlice = 2e-3;  // seconds a run lasts at least
  constexpr int kRuns = 12;
  double best = 0;
  volatile float sink = 0;
  int64_t rounds = 64;
  for (int run = 0; run < kRuns;) {
    const double start = thread_seconds();
    sink = sink + chains(isa, rounds);
    const double seconds = thread_seconds() - start;
    if (seconds < kSlice) {
      rounds *= 2;
      continue;
    }
    best = std::max(best, 2.0 * 16 * static_cast<double>(kFmaChains * rounds) / seconds);
    ++run;
  }
  return best;
}

}  // namespace muster::ops
