#include "app/train/prepare_run.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <optional>

#include "app/cli/read_config.h"
#include "base/hash.h"
#include "base/units.h"
#include "data/corpus.h"
#include "text/bpe_trainer.h"
#include "text/tokenizer_json.h"
#include "train/loop/warm.h"

namespace muster {

static Result<Tokenizer> train_on(const Corpus& corpus, const BpeTraining& options) {
  std::vector<std::string> texts;
  for (int64_t i = 0; i < corpus.size(Corpus::Part::train); ++i) {
    MUSTER_TRY(std::string text, corpus.read(Corpus::Part::train, i));
    texts.push_back(std::move(text));
  }
  const std::vector<std::string_view> views(texts.begin(), texts.end());
  return train_bpe(views, options);
}

Result<std::optional<Tokenizer>> given_tokenizer(Files& files, const std::string& kind) {
  if (kind == "train") return std::optional<Tokenizer>();
  MUSTER_TRY(Tokenizer tokenizer, kind == "bytes"
                                      ? Tokenizer::bytes(code_specials())
                                      : read_tokenizer(files, kind).context("data.tokenizer"));
  return std::optional<Tokenizer>(std::move(tokenizer));
}

Result<PreparedTokenizer> prepare_tokenizer(Files& files, const Clock& clock,
                                            const TrainConfig& config, const Corpus& corpus,
                                            const std::string& cache, int threads) {
  const std::string& kind = config.data.tokenizer;
  MUSTER_TRY(std::optional<Tokenizer> given, given_tokenizer(files, kind));
  if (given)
    return PreparedTokenizer{*std::move(given), kind == "bytes" ? kind : "read from " + kind};
  BpeTraining options;
  options.vocabulary_size = static_cast<uint32_t>(config.data.vocabulary);
  options.specials = code_specials();
  options.threads = threads;
  Xxh3 key;
  key.update(corpus.fingerprint().hex());
  key.update_u64(options.vocabulary_size);
  for (const std::string& special : options.specials) key.update(special + "\n");
  const std::string path = fmt::format("{}/tokenizers/{}.json", cache, key.digest().hex());
  if (files.stat(path).ok()) {
    auto cached = read_tokenizer(files, path);
    if (cached.ok()) return PreparedTokenizer{std::move(*cached), "cached"};
  }
  const Nanos begin = clock.now();
  MUSTER_TRY(Tokenizer tokenizer, train_on(corpus, options).context("train the tokenizer"));
  const std::string how = "trained in " + format_duration(clock.now() - begin);
  // A cache that cannot be written costs time only.
  if (make_directories(files, cache + "/tokenizers").ok()) {
    static_cast<void>(write_tokenizer(files, path, tokenizer).ok());
  }
  return PreparedTokenizer{std::move(tokenizer), how};
}

std::string corpus_text(const Corpus& corpus) {
  const CorpusCounts& c = corpus.counts();
  std::string text = fmt::format("{} documents, {}; {} held out", c.documents,
                                 format_bytes(Bytes{c.bytes}), c.held_out_documents);
  return text + "; skipped " + c.skipped_text() + "; fingerprint " + corpus.fingerprint().hex();
}

std::vector<SettingOrigin> setting_origins(const Config& config) {
  std::vector<SettingOrigin> origins;
  for (const auto& [key, entry] : config.entries()) {
    origins.push_back({key, shown_value(*train_schema().find(key), entry.value), entry.origin});
  }
  return origins;
}

Status write_settings(Files& files, const RunDirectory& run, const Config& config) {
  MUSTER_TRY(write_file_durably(files, run.config(), config.to_toml()));
  nlohmann::ordered_json origins;
  for (const SettingOrigin& o : setting_origins(config))
    origins[o.key] = {{"value", o.value}, {"origin", o.origin}};
  return write_file_durably(files, run.origins(), origins.dump(2) + "\n");
}

}  // namespace muster
