// RunDirectory: where each file of a training run lies, and the lock that keeps two runs out of one
// folder.
//
// clang-format off
//   config.toml              resolved settings
//   config-origins.json      where each value came from
//   tokenizer.json           the vocabulary of the run
//   steps.jsonl              one line a step (step_log.h)
//   events.sqlite            event log (store)
//   trace/attempt-A/rank-R.seg
//   trace.before-N/          trace of the Nth job, moved aside when the run was resumed
//   logs/attempt_A/…         output of the workers
//   checkpoints/step-…       (ckpt)
//   result.json              what rank 0 found at the end
//   gemm-choices-rank-R.txt  fast mode
//   report.md, report.html
// clang-format on
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "base/result.h"
#include "sys/files.h"

namespace muster {

class RunDirectory {
 public:
  explicit RunDirectory(std::string root) : root_(std::move(root)) {}

  const std::string& root() const { return root_; }
  std::string lock_file() const { return root_ + "/lock"; }
  std::string config() const { return root_ + "/config.toml"; }
  std::string origins() const { return root_ + "/config-origins.json"; }
  std::string tokenizer() const { return root_ + "/tokenizer.json"; }
  std::string steps() const { return root_ + "/steps.jsonl"; }
  std::string events() const { return root_ + "/events.sqlite"; }
  std::string checkpoints() const { return root_ + "/checkpoints"; }
  std::string logs() const { return root_ + "/logs"; }
  std::string result() const { return root_ + "/result.json"; }
  std::string report_markdown() const { return root_ + "/report.md"; }
  std::string report_html() const { return root_ + "/report.html"; }
  std::string trace_folder() const { return root_ + "/trace"; }
  std::string trace_before(int number) const;  // of earlier jobs in this folder, 1 the first
  std::string trace_segment(int32_t attempt, int32_t rank) const;
  std::string gemm_choices(int32_t rank) const;  // fast mode: vendor or own, per shape
  std::string injection_mark(size_t index) const;

  // Creates the folder and takes its lock. Errors: busy when another run holds it, naming the
  // folder and the remedy.
  Result<std::unique_ptr<FileLock>> lock(Files& files) const;

 private:
  std::string root_;
};

}  // namespace muster
