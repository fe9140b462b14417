#include "train/optim/schedule.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/strict_math.h"

namespace muster {

std::string_view schedule_name(ScheduleKind kind) {
  switch (kind) {
    case ScheduleKind::constant:
      return "constant";
    case ScheduleKind::cosine:
      return "cosine";
    case ScheduleKind::wsd:
      return "wsd";
  }
  return "?";
}

Result<ScheduleKind> parse_schedule(std::string_view name) {
  for (ScheduleKind kind : {ScheduleKind::constant, ScheduleKind::cosine, ScheduleKind::wsd})
    if (name == schedule_name(kind)) return kind;
  return Error(Code::invalid_argument,
               fmt::format("schedule \"{}\" is unknown; known: constant, cosine, wsd", name));
}

Status validate(const Schedule& s) {
  const auto bad = [](std::string text) { return Error(Code::invalid_argument, std::move(text)); };
  if (!std::isfinite(s.lr) || s.lr < 0)
    return bad(fmt::format("schedule: lr = {} must not be negative", s.lr));
  if (!std::isfinite(s.min_lr) || s.min_lr < 0 || s.min_lr > s.lr)
    return bad(fmt::format("schedule: min_lr = {} must be between 0 and lr = {}", s.min_lr, s.lr));
  if (s.steps < 1) return bad(fmt::format("schedule: steps = {} must be positive", s.steps));
  if (s.warmup_steps < 0)
    return bad(fmt::format("schedule: warmup_steps = {} must not be negative", s.warmup_steps));
  // A run that is shorter than its warm-up ends inside it; a decay must fit.
  if (s.decay_steps < 0 || (s.decay_steps > 0 && s.warmup_steps + s.decay_steps > s.steps))
    return bad(
        fmt::format("schedule: decay_steps = {} and warmup_steps = {} do not fit into steps = {}",
                    s.decay_steps, s.warmup_steps, s.steps));
  return {};
}

double learning_rate(const Schedule& s, int64_t step) {
  MUSTER_CHECK(step >= 0, step);
  const int64_t last = s.steps - 1;
  step = std::min(step, last);
  if (step < s.warmup_steps)
    return s.lr * static_cast<double>(step + 1) / static_cast<double>(s.warmup_steps);
  const double fall = s.lr - s.min_lr;
  switch (s.kind) {
    case ScheduleKind::constant:
      return s.lr;
    case ScheduleKind::cosine: {
      const int64_t span = last - s.warmup_steps;
      if (span <= 0) return s.min_lr;
      const double progress =
          static_cast<double>(step - s.warmup_steps) / static_cast<double>(span);
      return s.min_lr + fall * (0.5 * (1.0 + strict::cos(strict::kPi * progress)));
    }
    case ScheduleKind::wsd: {
      const int64_t left = last - step;
      if (left >= s.decay_steps) return s.lr;
      return s.min_lr + fall * (static_cast<double>(left) / static_cast<double>(s.decay_steps));
    }
  }
  return s.lr;
}

}  // namespace muster
