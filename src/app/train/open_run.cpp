#include "app/train/open_run.h"

#include <fmt/format.h>

#include <filesystem>

#include "app/cli/read_config.h"
#include "train/step/train_config.h"

namespace muster {

Status check_run_directory(Files& files, const RunDirectory& run, bool resume) {
  const bool used = files.stat(run.steps()).ok() || files.stat(run.checkpoints()).ok();
  if (used && !resume) {
    return Error(
        Code::already_exists,
        fmt::format("{} holds a run already; add --resume to go on with it, or choose another "
                    "--run-dir",
                    run.root()));
  }
  if (!used && resume) {
    return Error(Code::not_found,
                 fmt::format("{} holds no run to resume; check --run-dir", run.root()));
  }
  return {};
}

Status check_corpus_place(const RunDirectory& run, const std::vector<std::string>& corpus_paths,
                          const std::string& working_directory) {
  // With a slash at the end, so that a folder is a prefix of what lies in it.
  const auto place = [&](const std::string& path) {
    return (std::filesystem::path(working_directory) / path / "").lexically_normal().string();
  };
  for (const std::string& path : corpus_paths) {
    if (!place(path).starts_with(place(run.root()))) continue;
    return Error(Code::invalid_argument,
                 fmt::format("the corpus {} lies inside the run directory {}, where logs and "
                             "reports grow; choose another --run-dir",
                             path, run.root()));
  }
  return {};
}

Result<std::vector<std::string>> changed_settings(Files& files, const RunDirectory& run,
                                                  const Config& config) {
  std::vector<std::string> changes;
  const auto text = read_file(files, run.config());
  if (!text.ok()) return changes;
  Config::Sources sources;
  sources.file_name = run.config();
  sources.file_text = *text;
  const auto before = Config::resolve(train_schema(), sources);
  if (!before.ok()) return changes;  // of another version; the checkpoint is checked all the same
  for (const auto& [key, entry] : config.entries()) {
    const auto then = before->entries().find(key);
    if (then == before->entries().end() || then->second.value == entry.value) continue;
    const Setting& setting = *train_schema().find(key);
    const std::string old_text = shown_value(setting, then->second.value);
    const std::string new_text = shown_value(setting, entry.value);
    if (key == "data.tokenizer" || key == "data.vocabulary") {
      return Error(Code::invalid_argument,
                   fmt::format("{} = {}, but the tokenizer of {} was made with {}; keep that, or "
                               "start a new run",
                               key, new_text, run.root(), old_text));
    }
    changes.push_back(fmt::format("{}: {} -> {}", key, old_text, new_text));
  }
  return changes;
}

static Status remove_if_there(Files& files, const std::string& path) {
  Status removed = files.remove(path);
  if (!removed.ok() && removed.error().code() == Code::not_found) return {};
  return removed;
}

Status set_aside_job_before(Files& files, const RunDirectory& run) {
  if (files.stat(run.trace_folder()).ok()) {
    int number = 1;
    while (files.stat(run.trace_before(number)).ok()) ++number;
    MUSTER_TRY(files.rename(run.trace_folder(), run.trace_before(number))
                   .context("keep the trace of the job before"));
  }
  MUSTER_TRY(remove_if_there(files, run.result()));
  // Whatever indices there are: a mark left behind would keep the next job's injection from acting.
  const std::string first = run.injection_mark(0);
  const std::string_view prefix = std::string_view(first).substr(first.rfind('/') + 1);
  MUSTER_TRY(const auto entries, files.list(run.root()));
  for (const DirectoryEntry& entry : entries) {
    if (entry.name.starts_with(prefix.substr(0, prefix.size() - 1)))
      MUSTER_TRY(remove_if_there(files, join_path(run.root(), entry.name)));
  }
  return {};
}

}  // namespace muster
