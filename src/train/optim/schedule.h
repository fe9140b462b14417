// Learning-rate schedules: pure functions of the step, in strict mathematics, so that every rank
// and every resumed run computes the same bits.
//   cosine  linear warm-up, then half a cosine from lr to min_lr (Loshchilov & Hutter, SGDR,
//   without restarts) wsd     linear warm-up, hold at lr, linear decay to min_lr over the last
//   decay_steps (warm-up-hold-decay)
// Warm-up: step s < warmup_steps gets lr (s + 1) / warmup_steps, so that the first step already
// moves. The last step, steps - 1, gets min_lr.
#pragma once

#include <cstdint>
#include <string_view>

#include "base/result.h"

namespace muster {

enum class ScheduleKind : uint8_t { constant, cosine, wsd };
std::string_view schedule_name(ScheduleKind kind);
// Errors: invalid_argument lists the known names.
Result<ScheduleKind> parse_schedule(std::string_view name);

struct Schedule {
  ScheduleKind kind = ScheduleKind::cosine;
  double lr = 1e-3;
  double min_lr = 0;
  int64_t steps = 0;  // of the run
  int64_t warmup_steps = 0;
  int64_t decay_steps = 0;  // wsd only

  bool operator==(const Schedule&) const = default;
};

// Errors: invalid_argument names the field: negative or non-finite rates, min_lr above lr, lengths
// that do not fit.
Status validate(const Schedule& schedule);

// step >= 0; steps past the end get the last value.
double learning_rate(const Schedule& schedule, int64_t step);

}  // namespace muster
