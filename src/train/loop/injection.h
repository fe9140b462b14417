// Injection: faults that a run brings on itself, for tests and demonstrations:
// "kill:rank=1,step=60" makes rank 1 end by SIGKILL inside step 60, once.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/ids.h"
#include "base/result.h"

namespace muster {

struct Injection {
  // hang: the rank stops moving; nan: one of its parameters becomes NaN, so that this step and
  // those after it are not finite.
  enum class Kind { kill, hang, nan };
  Kind kind = Kind::kill;
  Rank rank;
  int64_t step = 0;  // counted from 1
  bool operator==(const Injection&) const = default;
};

// Errors: invalid_argument with the text and the form.
Result<Injection> parse_injection(std::string_view text);
std::string injection_text(const Injection& injection);

}  // namespace muster
