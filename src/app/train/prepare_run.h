// What must lie in a run directory before its workers start: resolved settings with their origins,
// and the tokenizer.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/config.h"
#include "base/log.h"
#include "base/result.h"
#include "data/corpus.h"
#include "sys/files.h"
#include "text/tokenizer.h"
#include "train/loop/run_directory.h"
#include "train/step/train_config.h"

namespace muster {

// The tokenizer of a run: trained on the training part of the corpus, or read, or bytes; a trained
// one is kept in `cache_folder` under a name made from corpus, size and special tokens, and taken
// from there the next time.
struct PreparedTokenizer {
  Tokenizer tokenizer;
  std::string how;  // "trained in 3.2 s", "cached", "bytes", "read from x.json"
};
Result<PreparedTokenizer> prepare_tokenizer(Files& files, const Clock& clock,
                                            const TrainConfig& config, const Corpus& corpus,
                                            const std::string& cache_folder, int threads);

// The tokenizer that `data.tokenizer` names: bytes or a file; nothing when it is to be trained.
Result<std::optional<Tokenizer>> given_tokenizer(Files& files, const std::string& kind);

// "38 documents, 10 KiB; 2 held out; skipped 1 not UTF-8; fingerprint …"
std::string corpus_text(const Corpus& corpus);

// Writes config.toml and config-origins.json.
Status write_settings(Files& files, const RunDirectory& run, const Config& config);

// Origins as written: key -> (value, origin).
struct SettingOrigin {
  std::string key, value, origin;
};
std::vector<SettingOrigin> setting_origins(const Config& config);

}  // namespace muster
