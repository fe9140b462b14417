// Warm: what every rank of a run needs and none changes: settings, corpus, tokenizer, the machine's
// instruction set. Loaded once in the template process, before ranks are forked
// from it; a rank started by another launcher loads it itself. Single-threaded; after a fork each
// process has its own copy.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>

#include "base/config.h"
#include "base/random.h"
#include "base/result.h"
#include "data/corpus.h"
#include "data/document_encoder.h"
#include "data/loader.h"
#include "sys/files.h"
#include "text/tokenizer.h"
#include "train/loop/run_directory.h"
#include "train/ops/exec.h"
#include "train/step/train_config.h"

namespace muster {

struct Warm {
  RunDirectory run;
  std::string config_text;  // canonical TOML
  TrainConfig config;       // vocabulary and context filled in
  Corpus corpus;
  Tokenizer tokenizer;
  std::string tokenizer_json;  // as RUN/tokenizer.json has it, for checkpoints
  SpecialTokens special;
  LoaderShape shape;
  Hash128 encoding;  // fingerprint of tokenizer and packing
  ops::Isa isa = ops::Isa::scalar;

  // A new one: it keeps a cache of its own.
  DocumentEncoder make_encoder(double fim_rate) const;
};

// `tokenizer_json` as RUN/tokenizer.json has it or will have it; `isa_name`: the value of
// MUSTER_ISA, or empty. Errors: those of the tokenizer, and of settings that it does not fit.
Result<Warm> make_warm(RunDirectory run, const Config& config, Corpus corpus,
                       std::string tokenizer_json, const std::string& isa_name);

// Reads RUN/config.toml and RUN/tokenizer.json and opens the corpus through `files`, which must
// outlive the result. `environment`: MUSTER_ISA, and where the user's cache is.
Result<Warm> warm_up(Files& files, Random& random, RunDirectory run,
                     const std::map<std::string, std::string>& environment);

// The corpus that settings describe.
CorpusSpec corpus_spec(const DataSettings& data, const std::string& cache_folder);

// Ids of the special tokens by their usual names. Errors: invalid_argument when <|endoftext|> is
// missing, or a fill-in-the-middle token while `fim_rate` is not 0.
Result<SpecialTokens> special_tokens(const Tokenizer& tokenizer, double fim_rate);

}  // namespace muster
