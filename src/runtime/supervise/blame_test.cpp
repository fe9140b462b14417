#include "runtime/supervise/blame.h"

#include <gtest/gtest.h>

#include <cerrno>

namespace muster {
namespace {

ExitEvidence evidence(int32_t rank, int code, int signal, std::vector<std::string> lines = {}) {
  ExitEvidence e;
  e.rank = rank;
  e.exit.code = code;
  e.exit.signal = signal;
  e.last_lines = std::move(lines);
  e.at = Nanos{rank};  // rank order is time order unless said otherwise
  return e;
}

TEST(ChooseCause, TheStrongestEvidenceWinsWhateverCameFirst) {
  const std::vector<std::string> reset = {"RuntimeError: ... Connection reset by peer"};
  ExitEvidence killed = evidence(2, 0, SIGKILL);
  killed.out_of_memory = true;
  ExitEvidence absent = evidence(2, 0, 0);
  absent.start_error = "no program 'x'";
  absent.start_errno = ENOENT;
  ExitEvidence raised = evidence(2, 1, 0);
  raised.error_message = "ValueError: boom";
  const struct {
    const char* name;
    std::vector<ExitEvidence> wave;
    int32_t rank;
    CauseKind kind;
    int code, collateral;
  } cases[] = {
      {"alone", {evidence(0, 7, 0)}, 0, CauseKind::exit_code, 7, 0},
      {"earlier of two equal ones",
       {evidence(1, 7, 0), evidence(0, 8, 0)},
       0,
       CauseKind::exit_code,
       8,
       0},
      {"signal over code",
       {evidence(0, 1, 0), evidence(1, 0, SIGSEGV)},
       1,
       CauseKind::fatal_signal,
       139,
       1},
      {"out of memory over signal",
       {evidence(0, 0, SIGSEGV), killed},
       2,
       CauseKind::out_of_memory,
       137,
       1},
      {"failed start over code", {evidence(0, 1, 0), absent}, 2, CauseKind::start_failed, 127, 1},
      {"error file over code", {evidence(0, 1, 0), raised}, 2, CauseKind::error_file, 1, 1},
      {"lost peer is collateral",
       {evidence(0, 1, 0, reset), evidence(1, 5, 0)},
       1,
       CauseKind::exit_code,
       5,
       1},
      {"abort after a lost peer is collateral",
       {evidence(0, 0, SIGABRT, reset), evidence(1, 5, 0)},
       1,
       CauseKind::exit_code,
       5,
       1},
      {"segmentation fault never is",
       {evidence(0, 0, SIGSEGV, reset), evidence(1, 5, 0)},
       0,
       CauseKind::fatal_signal,
       139,
       1},
      {"broken pipe is collateral",
       {evidence(0, 0, SIGPIPE), evidence(1, 5, 0)},
       1,
       CauseKind::exit_code,
       5,
       1},
      {"nothing but lost peers",
       {evidence(0, 1, 0, reset), evidence(1, 1, 0, reset)},
       0,
       CauseKind::exit_code,
       1,
       0},
  };
  for (const auto& c : cases) {
    SCOPED_TRACE(c.name);
    const Cause cause = choose_cause(c.wave, Attempt{3});
    EXPECT_EQ(cause.rank.value, c.rank);
    EXPECT_EQ(cause.kind, c.kind);
    EXPECT_EQ(cause.exit_code, c.code);
    EXPECT_EQ(cause.collateral, c.collateral);
    EXPECT_EQ(cause.culprits.front(), c.rank);
  }
}

TEST(ChooseCause, OneMessageHoldsRankSignalAndLastLines) {
  ExitEvidence e = evidence(5, 0, SIGSEGV, {"loading", "about to fail"});
  e.pid = 42;
  const std::string text = choose_cause({e, evidence(6, 1, 0)}, Attempt{1}).to_string();
  EXPECT_EQ(text,
            "first cause: rank 5 (pid 42) of attempt 1 died by SIGSEGV\n"
            "  1 other bad exit followed from it\n"
            "  its last lines:\n  | loading\n  | about to fail");
}

TEST(ChooseCause, AWarningLongAgoIsNoLostPeer) {
  std::vector<std::string> lines(40, "step");
  lines[0] = "warning: Connection reset by peer, retrying";
  EXPECT_FALSE(looks_like_peer_loss(lines));
  lines.back() = "Broken pipe";
  EXPECT_TRUE(looks_like_peer_loss(lines));
}

TEST(ErrorFile, BothFormsAndRubbish) {
  EXPECT_EQ(error_file_message(R"({"message": {"message": "ValueError: boom", "extraInfo": {}}})"),
            "ValueError: boom");
  EXPECT_EQ(error_file_message(R"({"message": "plain"})"), "plain");
  for (const char* rubbish : {"", "{", "[]", "{}", R"({"message": 5})", R"({"message": {"x": 1}})"})
    EXPECT_EQ(error_file_message(rubbish), "");
}

}  // namespace
}  // namespace muster
