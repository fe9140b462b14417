#include "train/loop/warm.h"

#include <fmt/format.h>

#include <utility>

#include "data/cache_folder.h"
#include "text/tokenizer_json.h"

namespace muster {

Result<SpecialTokens> special_tokens(const Tokenizer& tokenizer, double fim_rate) {
  const auto id = [&](std::string_view content) {
    const auto found = tokenizer.special_id(content);
    return found ? static_cast<int32_t>(*found) : -1;
  };
  const SpecialTokens special{id("<|endoftext|>"), id("<fim_prefix>"), id("<fim_middle>"),
                              id("<fim_suffix>")};
  if (special.end_of_text < 0) {
    return Error(
        Code::invalid_argument,
        "the tokenizer has no <|endoftext|> token, which separates documents; train one with "
        "muster tokenizer train, or choose another tokenizer.json");
  }
  if (fim_rate > 0 && !special.has_fim()) {
    return Error(Code::invalid_argument,
                 fmt::format("data.fim_rate = {} needs the tokens <fim_prefix>, <fim_middle> and "
                             "<fim_suffix>, which the "
                             "tokenizer lacks; set data.fim_rate = 0 or choose another tokenizer",
                             fim_rate));
  }
  return special;
}

CorpusSpec corpus_spec(const DataSettings& data, const std::string& cache_folder) {
  CorpusSpec spec;
  switch (data.source) {
    case DataSettings::Source::stdlib:
      spec.kind = CorpusSpec::Kind::stdlib;
      break;
    case DataSettings::Source::files:
      spec.kind = CorpusSpec::Kind::files;
      break;
    case DataSettings::Source::jsonl:
      spec.kind = CorpusSpec::Kind::jsonl;
      break;
  }
  spec.paths = data.paths;
  spec.endings = data.endings;
  spec.text_field = data.text_field;
  spec.hold_out = data.holdout_by == DataSettings::Holdout::tail ? CorpusSpec::HoldOut::tail
                                                                 : CorpusSpec::HoldOut::by_name;
  spec.held_out_share = data.holdout;
  spec.cache_folder = cache_folder;
  return spec;
}

DocumentEncoder Warm::make_encoder(double fim_rate) const {
  // Shared: DocumentEncoder's function must be copyable.
  struct State {
    Encoder encoder;
    std::vector<uint32_t> ids;
  };
  auto state = std::make_shared<State>(State{Encoder(tokenizer), {}});
  auto encode = [state](std::string_view text, std::vector<int32_t>& out) {
    state->ids.clear();
    state->encoder.encode(text, state->ids);
    out.insert(out.end(), state->ids.begin(), state->ids.end());
  };
  return DocumentEncoder(std::move(encode), special, fim_rate, shape.sequence_length);
}

Result<Warm> make_warm(RunDirectory run, const Config& config, Corpus corpus,
                       std::string tokenizer_json, const std::string& isa_name) {
  MUSTER_TRY(TrainConfig typed, make_train_config(config));
  MUSTER_TRY(Tokenizer tokenizer, tokenizer_from_json(tokenizer_json).context(run.tokenizer()));
  MUSTER_TRY(const SpecialTokens special, special_tokens(tokenizer, typed.data.fim_rate));
  MUSTER_TRY(const ops::Isa isa, ops::isa_from(isa_name, ops::best_isa()));

  typed.model.vocab_size = tokenizer.vocabulary_size();
  MUSTER_TRY(validate(typed.model));
  LoaderShape shape;
  shape.sequence_length = typed.data.sequence_length;
  shape.rows = typed.batch.sequences_per_micro_batch;
  shape.micro_batches = typed.batch.micro_batches_per_step;
  shape.group_documents = typed.data.group_documents;
  const Hash128 encoding =
      encoding_fingerprint(tokenizer.fingerprint(), typed.data.fim_rate, shape);
  return Warm{std::move(run),
              config.to_toml(),
              typed,
              std::move(corpus),
              std::move(tokenizer),
              std::move(tokenizer_json),
              special,
              shape,
              encoding,
              isa};
}

Result<Warm> warm_up(Files& files, Random& random, RunDirectory run,
                     const std::map<std::string, std::string>& environment) {
  Config::Sources sources;
  sources.file_name = run.config();
  MUSTER_TRY(sources.file_text, read_file(files, run.config()).context("read the run's settings"));
  MUSTER_TRY(const Config config, Config::resolve(train_schema(), sources));
  MUSTER_TRY(const TrainConfig typed, make_train_config(config));
  MUSTER_TRY(std::string tokenizer_json,
             read_file(files, run.tokenizer()).context("read the run's tokenizer"));
  MUSTER_TRY(Corpus corpus,
             Corpus::open(files, random, corpus_spec(typed.data, spool_folder(environment))));
  const auto isa = environment.find("MUSTER_ISA");
  return make_warm(std::move(run), config, std::move(corpus), std::move(tokenizer_json),
                   isa == environment.end() ? "" : isa->second);
}

}  // namespace muster
