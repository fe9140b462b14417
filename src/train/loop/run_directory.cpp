#include "train/loop/run_directory.h"

#include <fmt/format.h>

namespace muster {

std::string RunDirectory::trace_before(int number) const {
  return fmt::format("{}.before-{}", trace_folder(), number);
}

std::string RunDirectory::trace_segment(int32_t attempt, int32_t rank) const {
  return fmt::format("{}/attempt-{}/rank-{}.seg", trace_folder(), attempt, rank);
}

std::string RunDirectory::gemm_choices(int32_t rank) const {
  return fmt::format("{}/gemm-choices-rank-{}.txt", root_, rank);
}

std::string RunDirectory::injection_mark(size_t index) const {
  return fmt::format("{}/injected-{}", root_, index);
}

Result<std::unique_ptr<FileLock>> RunDirectory::lock(Files& files) const {
  MUSTER_TRY(make_directories(files, root_).context("run directory"));
  auto lock = files.lock(lock_file());
  if (!lock.ok() && lock.error().code() == Code::busy) {
    return Error(
        Code::busy,
        fmt::format(
            "the run directory {} is in use by another run; choose another with --run-dir, or "
            "wait until that run has ended",
            root_));
  }
  return lock;
}

}  // namespace muster
