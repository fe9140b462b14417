// A model and its tokenizer from a checkpoint folder, and what it takes to run it: shared by score
// and generate.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "base/result.h"
#include "sys/arena.h"
#include "sys/files.h"
#include "sys/thread_team.h"
#include "text/tokenizer.h"
#include "train/model/model.h"

namespace muster {

template <class T>
struct LoadedModel {
  std::unique_ptr<Model<T>> model;
  std::optional<Tokenizer> tokenizer;
};

// `folder`: a checkpoint, or a run folder, whose newest valid checkpoint is taken. Errors: those of
// reading; corrupt.
template <class T>
Result<LoadedModel<T>> load_checkpoint(Files& files, const std::string& folder);

inline constexpr int64_t kMostThreads = 1024;  // as train.threads

// Threads, scratch and instruction set for strict kernels.
class Engine {
 public:
  static Result<std::unique_ptr<Engine>> make(int threads, int64_t scratch_bytes,
                                              const std::string& isa);
  ops::Exec& exec() { return exec_; }

 private:
  Engine(int threads, Arena arena, ops::Isa isa)
      : team_(threads), arena_(std::move(arena)), exec_{team_, arena_, isa, ops::Mode::strict} {}
  ThreadTeam team_;
  Arena arena_;
  ops::Exec exec_;
};

}  // namespace muster
