// muster data inspect: what a configuration's corpus holds, what is skipped, how it is packed, and
// what a fill-in-the-middle document looks like.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "app/cli/options.h"
#include "app/cli/verb.h"
#include "app/train/prepare_run.h"
#include "app/train/resolve_config.h"
#include "base/units.h"
#include "data/cache_folder.h"
#include "data/packing.h"
#include "sys/real_files.h"
#include "train/loop/warm.h"

namespace muster {
namespace {

struct Inspection {
  CorpusCounts counts;
  Hash128 fingerprint;
  uint32_t vocabulary = 0;
  std::string tokenizer;
  int64_t tokens = 0;  // of one epoch in plain form, separators included
  int64_t sequences = 0;
  int64_t longest = 0;  // tokens of the longest document
  std::string longest_name;
  std::string example;  // a document in fill-in-the-middle form
};

Result<Inspection> inspect(World& world, const std::string& file,
                           const std::vector<std::string>& sets) {
  RealFiles files("");
  MUSTER_TRY(const Config config, resolve_train_config(world, files, file, sets));
  MUSTER_TRY(const TrainConfig typed, make_train_config(config));
  const std::string cache = cache_folder(world.environment);
  MUSTER_TRY(
      const Corpus corpus,
      Corpus::open(files, world.random, corpus_spec(typed.data, spool_folder(world.environment))));
  MUSTER_TRY(const PreparedTokenizer prepared,
             prepare_tokenizer(files, world.clock, typed, corpus, cache, 2));
  MUSTER_TRY(const SpecialTokens special, special_tokens(prepared.tokenizer, typed.data.fim_rate));
  Inspection found;
  found.counts = corpus.counts();
  found.fingerprint = corpus.fingerprint();
  found.vocabulary = prepared.tokenizer.vocabulary_size();
  found.tokenizer = prepared.how;
  Encoder encoder(prepared.tokenizer);
  std::vector<uint32_t> ids;
  for (int64_t i = 0; i < corpus.size(Corpus::Part::train); ++i) {
    MUSTER_TRY(const std::string text, corpus.read(Corpus::Part::train, i));
    ids.clear();
    encoder.encode(text, ids);
    const auto tokens = static_cast<int64_t>(ids.size()) + 1;
    found.tokens += tokens;
    if (tokens > found.longest)
      found.longest = tokens, found.longest_name = corpus.file_name(Corpus::Part::train, i);
    if (found.example.empty() && special.has_fim() && text.size() < 1500) {
      const FimPieces pieces = fim_cut(
          {static_cast<uint64_t>(typed.train.seed), 0, corpus.id(Corpus::Part::train, i)}, 0, text);
      found.example = fmt::format("<|endoftext|><fim_suffix>{}<fim_prefix>{}<fim_middle>{}",
                                  pieces.suffix, pieces.prefix, pieces.middle);
    }
  }
  found.sequences = found.tokens / typed.data.sequence_length;
  return found;
}

}  // namespace

int data_main(World& world, const std::vector<std::string>& words) {
  std::string what, file;
  std::vector<std::string> sets;
  bool json = false;
  Options options("data",
                  "Shows what a training configuration reads: documents, what is skipped and why, "
                  "tokens, an example.");
  options.positional("inspect", what, "the word 'inspect'");
  options.positional("CONFIG", file, "a TOML file");
  options.values("--set", sets, "override a setting: key=value (repeatable)");
  options.flag("--json", json, "one JSON object on standard output");
  options.footer("Exit codes: 0 shown, 1 the data cannot be read, 2 wrong arguments.");
  if (const auto code = options.parse(words)) return *code;
  if (what != "inspect") {
    fmt::print(stderr, "muster data: unknown word '{}'; write muster data inspect CONFIG\n", what);
    return kExitUsage;
  }
  const auto found = inspect(world, file, sets);
  if (!found.ok()) {
    fmt::print(stderr, "muster data: {}\n", found.error().to_string());
    return kExitFailed;
  }
  const CorpusCounts& c = found->counts;
  const double bytes_per_token =
      found->tokens > 0 ? static_cast<double>(c.bytes) / static_cast<double>(found->tokens) : 0;
  if (json) {
    nlohmann::ordered_json out;
    out["fingerprint"] = found->fingerprint.hex();
    out["files"] = c.files;
    out["documents"] = {{"train", c.documents}, {"held_out", c.held_out_documents}};
    out["bytes"] = {{"train", c.bytes}, {"held_out", c.held_out_bytes}};
    for (const CorpusCounts::Skipped& s : c.skipped()) out["skipped"][s.key] = s.count;
    out["vocabulary"] = found->vocabulary;
    out["tokens"] = found->tokens;
    out["bytes_per_token"] = bytes_per_token;
    out["sequences"] = found->sequences;
    out["longest_document"] = {{"tokens", found->longest}, {"name", found->longest_name}};
    fmt::print("{}\n", out.dump());
    return kExitOk;
  }
  fmt::print("corpus       {}\n", found->fingerprint.hex());
  fmt::print("train        {} documents, {}\n", c.documents, format_bytes(Bytes{c.bytes}));
  fmt::print("held out     {} documents, {}\n", c.held_out_documents,
             format_bytes(Bytes{c.held_out_bytes}));
  fmt::print("skipped      {}\n", c.skipped_text());
  fmt::print("tokenizer    {} tokens, {}\n", found->vocabulary, found->tokenizer);
  fmt::print("tokens       {} an epoch, {:.2f} bytes each, {} sequences\n", found->tokens,
             bytes_per_token, found->sequences);
  fmt::print("longest      {} tokens: {}\n", found->longest, found->longest_name);
  if (!found->example.empty())
    fmt::print("\nfill-in-the-middle form of one document:\n{}\n", found->example);
  return kExitOk;
}

}  // namespace muster
