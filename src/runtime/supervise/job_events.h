// Event kinds that the supervisor writes besides those of trace/vocabulary.h.
#pragma once

#include <string_view>

namespace muster::event_kind {

// An attempt begins. {"restarts": int}
inline constexpr std::string_view kAttemptStart = "attempt.start";
// All its processes have ended and nothing of them is left. {}
inline constexpr std::string_view kAttemptEnd = "attempt.end";
// A rank runs. {"pid": int}
inline constexpr std::string_view kRankStart = "rank.start";
// We are about to kill a rank; written before the signal is sent. {"signal": int}
inline constexpr std::string_view kRankKill = "rank.kill";
// The operator asked to stop. {"signal": int}
inline constexpr std::string_view kJobStop = "job.stop";
// Ranks start again. {"scope": "rank" | "group", "cause": text}
inline constexpr std::string_view kJobRestart = "job.restart";

}  // namespace muster::event_kind
