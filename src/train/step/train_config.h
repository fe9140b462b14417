// TrainConfig: every setting of `muster train`, as one typed value beside the schema that documents
// it. Owns the names, defaults, ranges and the rules between settings; `muster train`, `muster
// plan` and `muster config explain` read the same table.
//
// Errors: invalid_argument that names the key, the value seen, what is allowed and what to change.
// Plain value; immutable once made.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/config.h"
#include "base/result.h"
#include "base/units.h"
#include "train/spec/model_config.h"

namespace muster {

struct DataSettings {
  enum class Source { stdlib, files, jsonl };
  // name: a document is held out if the hash of its relative name falls into the share; tail: the
  // last share of the bytes in reading order (the custom of small single-file corpora).
  enum class Holdout { name, tail };

  Source source = Source::stdlib;
  std::vector<std::string> paths;    // files or folders; none for stdlib
  std::vector<std::string> endings;  // files: accepted name endings; empty = all
  std::string text_field = "text";   // jsonl: the field that holds the document
  double fim_rate = 0.5;             // share of documents in suffix-prefix-middle form
  double holdout = 0.02;             // share
  Holdout holdout_by = Holdout::name;
  int64_t sequence_length = 512;    // tokens a training sequence holds
  std::string tokenizer = "train";  // "train", "bytes" or the path of a tokenizer.json
  int64_t vocabulary = 4096;        // tokens, special ones included = rows of the embedding
  int64_t group_documents = 64;     // packed together
  Bytes prefetch{64 << 20};
};

struct BatchSettings {
  int64_t micro_batches_per_step = 8;
  int64_t sequences_per_micro_batch = 2;
  int64_t virtual_shards = 8;  // V: lanes of a round; divides micro_batches_per_step
};

struct OptimizerSettings {
  enum class Schedule { cosine, wsd };
  double lr = 1e-3, min_lr = 1e-4;
  double beta1 = 0.9, beta2 = 0.95, eps = 1e-8;
  double weight_decay = 0.1;
  double clip = 1.0;  // largest global gradient norm; 0 = no clipping
  Schedule schedule = Schedule::cosine;
  int64_t warmup_steps = 20;
  int64_t decay_steps = 0;  // wsd: length of the decay at the end
};

struct TrainSettings {
  enum class Mode { strict, fast };
  int64_t steps = 150;
  int64_t seed = 1;
  Mode mode = Mode::strict;
  int64_t threads = 1;        // per worker
  Bytes memory_budget{0};     // per worker, for activations and gradients of a step; 0 = no limit
  Nanos hang_timeout{0};      // without progress; 0 = learned from the step time
  Nanos warm_up_timeout{0};   // of the template process
  Nanos comm_timeout{0};      // of one collective
  int64_t max_bad_steps = 3;  // non-finite steps in a row that end the run
  int64_t stop_after = 0;     // save and stop after this step, as on SIGTERM; 0 = run to the end
};

struct CheckpointSettings {
  int64_t every = 25;  // steps; 0 = only at the end
  int64_t keep = 3;
  int64_t ring_buffers = 4;
  Bytes ring_buffer_size{32 << 20};
};

struct RunSettings {
  std::string dir;  // empty = runs/<name>-<time>
  int64_t workers = 2;
  int64_t max_restarts = 3;
};

struct EvalSettings {
  int64_t every = 0;           // steps between evaluations; 0 = only at the end
  int64_t sequences = 64;      // held-out sequences of one evaluation; 0 = all
  int64_t sample_tokens = 96;  // length of the completions at the end; 0 = none
};

struct TrainConfig {
  ModelConfig model;
  DataSettings data;
  BatchSettings batch;
  OptimizerSettings optimizer;
  TrainSettings train;
  CheckpointSettings checkpoint;
  RunSettings run;
  EvalSettings eval;

  int64_t rounds() const { return batch.micro_batches_per_step / batch.virtual_shards; }
  int64_t tokens_per_micro_batch() const {
    return batch.sequences_per_micro_batch * data.sequence_length;
  }
  int64_t tokens_per_step() const {
    return batch.micro_batches_per_step * tokens_per_micro_batch();
  }
};

// The schema of the TOML file, for Config::resolve.
const Schema& train_schema();

// Typed values with the rules between settings checked.
Result<TrainConfig> make_train_config(const Config& config);

}  // namespace muster
