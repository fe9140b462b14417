// StepLog: one JSON line per executed step in RUN/steps.jsonl. The loss is kept as exact bits
// beside its decimal form, so that two runs can be compared bit for bit. A step that a restart
// repeats appears again with its attempt; readers take the last line of a step. A torn last line
// (the writer was killed) is skipped.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "sys/files.h"

namespace muster {

struct StepRecord {
  int64_t step = 0;  // counted from 1
  int32_t attempt = 0;
  double loss = 0;  // nats per target token, mean over the global batch
  double gradient_norm = 0;
  double learning_rate = 0;
  int64_t tokens = 0;  // valid target tokens of this step, all ranks
  double seconds = 0;  // of the step on rank 0
  double exposed_comm_seconds = 0, data_wait_seconds = 0, checkpoint_wait_seconds = 0;
  double model_flops = 0;  // of the step on all ranks, by the exact count (repeated work left out)
  double peak_flops_per_second = 0;  // of all ranks together, as measured at their start
  bool skipped = false;              // non-finite loss or gradient: nothing was updated
  std::string batches;               // "epoch/group/sequence" of the step's first sequence
};

std::string step_line(const StepRecord& record);  // without the newline
Result<StepRecord> parse_step_line(std::string_view line);
// The last record of every step, rising. `skipped_lines` counts what was not readable.
std::vector<StepRecord> parse_step_log(std::string_view text, int64_t* skipped_lines);

// Appends lines; one write per line, so that readers see whole lines. A line that a crash or a full
// disk tore is ended first, so that no later line is joined to it.
class StepLog {
 public:
  static Result<StepLog> open(Files& files, const std::string& path);
  // On an error the line is kept and written before the next one, or at close().
  Status append(const StepRecord& record);
  bool waiting() const { return !waiting_.empty(); }
  Status close();  // an error: lines are lost

 private:
  Status write();
  StepLog(Files& files, FileHandle file) : files_(&files), file_(file) {}
  Files* files_;
  FileHandle file_;
  std::string waiting_;
};

}  // namespace muster
