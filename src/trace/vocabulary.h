// The words that the trainer and the supervisor write and that the ledger and the exporter read:
// span names in rings, event kinds in the event log, and how a worker finds its region.
//
// Spans. A name is one of these or one of these followed by '.' and more ("compute.forward",
// "comm.all_reduce"). Spans of several threads of a rank may overlap; the ledger decides
// (insight/ledger/ledger.h). `a` is the step where one is running, else 0.
#pragma once

#include <string_view>

namespace muster::trace_name {

// Start of a process. Time from its spawn to its first record counts as init.device too.
inline constexpr std::string_view kInitDevice = "init.device";
inline constexpr std::string_view kInitRendezvous = "init.rendezvous";
inline constexpr std::string_view kInitCompile = "init.compile";
// Reading a checkpoint into place, first attempt included.
inline constexpr std::string_view kRestore = "restore";

// One optimizer step. a = its number, counted from 1: a checkpoint of step c holds the effect of
// steps 1..c. Written as a step mark when it begins (TraceWriter::step) and as a complete span when
// it has ended.
inline constexpr std::string_view kStep = "step";

// Inside a step.
inline constexpr std::string_view kCompute = "compute";
// A collective, from entering to leaving it. b = its sequence number, equal on all ranks of an
// attempt and different from 0: the ledger then tells waiting for the last rank from transfer.
inline constexpr std::string_view kComm = "comm";
inline constexpr std::string_view kDataWait = "data_wait";  // the step thread waits for a batch
inline constexpr std::string_view kCkptExposed =
    "ckpt_wait";  // the step thread waits for a snapshot

// Outside steps.
inline constexpr std::string_view kEval = "eval";
inline constexpr std::string_view kCkptBlock =
    "ckpt_block";                                  // nothing runs until a save is durable
inline constexpr std::string_view kIdle = "idle";  // the rank has no part in what the others do

}  // namespace muster::trace_name

namespace muster::event_kind {

// Each with the payload keys it must carry; times are the event's own monotonic time.
// The job was asked for. {"ranks": int, "command": [text]}
inline constexpr std::string_view kJobLaunch = "job.launch";
// The job is over. {"succeeded": bool, "exit_code": int, "reason": text}
inline constexpr std::string_view kJobEnd = "job.end";
// All processes of an attempt have been spawned. {}
inline constexpr std::string_view kAttemptPlaced = "attempt.placed";
// The supervisor decided that the attempt has failed (death or hang). rank = the culprit.
// {"cause": text, "message": text}
inline constexpr std::string_view kAttemptVerdict = "attempt.verdict";
// A process has ended. {"exit_code": int} or {"signal": int}; "expected": bool
inline constexpr std::string_view kRankExit = "rank.exit";
// The state the attempt started from. {"step": int}; 0 = fresh
inline constexpr std::string_view kRestored = "ckpt.restored";
// A checkpoint is durable. {"step": int, "path": text}
inline constexpr std::string_view kCommitted = "ckpt.committed";

}  // namespace muster::event_kind

namespace muster {

// Environment variable with the number of the inherited descriptor of the worker's TraceRegion.
inline constexpr const char* kTraceFdVariable = "MUSTER_TRACE_FD";

}  // namespace muster
