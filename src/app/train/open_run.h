// What a job of `muster train` finds in its run directory: whether it may start there, what has
// changed since the job before, and the files of that job which must not be taken for its own.
#pragma once

#include <string>
#include <vector>

#include "base/config.h"
#include "base/result.h"
#include "sys/files.h"
#include "train/loop/run_directory.h"

namespace muster {

// Errors: already_exists for a used folder without `resume`; not_found for an unused one with it.
Status check_run_directory(Files& files, const RunDirectory& run, bool resume);

// A corpus inside the run directory would be skipped, or change under the run. `working_directory`:
// what relative paths start from. Errors: invalid_argument naming both.
Status check_corpus_place(const RunDirectory& run, const std::vector<std::string>& corpus_paths,
                          const std::string& working_directory);

// Settings that differ from those of the job before, as "key: then -> now"; none when that job left
// no readable settings. Errors: invalid_argument for a setting that made the run's tokenizer, which
// cannot change any more.
Result<std::vector<std::string>> changed_settings(Files& files, const RunDirectory& run,
                                                  const Config& config);

// Call with the lock held, before the first worker starts. Moves the trace of the job before aside
// (trace.before-N), since attempts count from 0 in every job, and removes its result and the marks
// of its injections.
Status set_aside_job_before(Files& files, const RunDirectory& run);

}  // namespace muster
