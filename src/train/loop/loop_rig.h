// A tiny run on a simulated disk, for the tests of this room: settings, corpus, tokenizer, and one
// rank's model, moments and keeper.
#pragma once

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <thread>

#include "comm/shm_group.h"
#include "sys/sim_files.h"
#include "text/bpe_trainer.h"
#include "text/tokenizer_json.h"
#include "train/loop/state_keeper.h"
#include "train/loop/warm.h"

namespace muster::loop_rig {

constexpr const char* kSettings = R"(
[model]
family = "llama"
layers = 1
hidden = 16
heads = 2
kv_heads = 1
mlp = 32
context = 32
[data]
source = "files"
paths = ["corpus"]
sequence_length = 32
tokenizer = "bytes"
holdout = 0.0
fim_rate = 0.0
[checkpoint]
ring_buffers = 2
ring_buffer_size = "1MiB"
[run]
workers = 1
)";

inline Config settings(std::vector<std::string> sets = {}) {
  Config::Sources sources;
  sources.file_name = "tiny.toml";
  sources.file_text = kSettings;
  sources.sets = std::move(sets);
  return Config::resolve(train_schema(), sources).value();
}

// `files` gets the corpus, unless it has it, and an empty run directory.
inline Warm warm(Files& files, const Config& config) {
  EXPECT_TRUE(make_directories(files, "corpus").ok());
  EXPECT_TRUE(make_directories(files, "run").ok());
  if (!files.stat("corpus/a.py").ok()) {
    EXPECT_TRUE(write_file_durably(files, "corpus/a.py", std::string(500, 'x') + "\n").ok());
  }
  const TrainConfig typed = make_train_config(config).value();
  SimRandom random(1);
  Corpus corpus = Corpus::open(files, random, corpus_spec(typed.data, "cache")).value();
  const std::string tokenizer = tokenizer_to_json(Tokenizer::bytes(code_specials()).value());
  return make_warm(RunDirectory("run"), config, std::move(corpus), tokenizer, "").value();
}

// A log that can be read back.
class KeptLog {
 public:
  explicit KeptLog(const Clock& clock)
      : fd_(::memfd_create("log", MFD_CLOEXEC)),
        log(clock, fd_, LogLevel::info, Log::Format::text) {}
  ~KeptLog() { ::close(fd_); }
  std::string text() const {
    std::string text(1 << 16, '\0');
    const ssize_t got = ::pread(fd_, text.data(), text.size(), 0);
    text.resize(static_cast<size_t>(std::max<ssize_t>(got, 0)));
    return text;
  }

 private:
  int fd_;

 public:
  Log log;
};

// Generous: what is waited for comes in milliseconds.
inline bool wait_until(const std::function<bool()>& condition) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds{60};
  while (!condition()) {
    if (std::chrono::steady_clock::now() > deadline) return false;
    std::this_thread::yield();
  }
  return true;
}

// One rank that is alone.
struct Rank0 {
  Rank0(SimFiles& f, const Config& config, std::string vendor_name = "")
      : files(f), vendor(std::move(vendor_name)), run(warm(f, config)) {
    model->initialize(1, team);
  }

  ScalarState scalars(int64_t step) const {
    ScalarState state;
    state.step = state.schedule_step = state.rng_step = step;
    state.rng_seed = static_cast<uint64_t>(run.config.train.seed);
    state.loader_cursor = Loader::start_cursor(run.corpus, run.encoding, state.rng_seed).to_text();
    return state;
  }

  SimFiles& files;
  std::string vendor;
  SimClock clock;
  SimRandom random{3};
  KeptLog log{clock};
  ThreadTeam team{1};
  Warm run;
  ops::GemmChooser chooser{clock};
  std::unique_ptr<Communicator> group = solo_group(clock, GroupOptions{}).value();
  std::unique_ptr<Model<float>> model = Model<float>::make(run.config.model).value();
  Moments<float> moments = Moments<float>::make(model->spec()).value();
  std::unique_ptr<StateKeeper> keeper =
      StateKeeper::make({clock, random, files, log.log, *group, chooser, vendor}, run, *model,
                        moments)
          .value();
};

}  // namespace muster::loop_rig
