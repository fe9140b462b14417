// muster import-hf HF_DIR -o DIR: a Hugging Face model folder becomes a checkpoint.
#include <fmt/format.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <vector>

#include "app/cli/options.h"
#include "app/cli/verb.h"
#include "sys/real_files.h"
#include "text/tokenizer_json.h"
#include "train/spec/checkpoint_model.h"
#include "train/spec/hf_weights.h"

namespace muster {
namespace {

struct Imported {
  ModelConfig config;
  int64_t parameters = 0;
  size_t tensors = 0;
  bool tokenizer = false;
  std::string note;  // why a tokenizer.json that is there was not taken
};

struct FoundTokenizer {
  std::string json, fingerprint, note;
};

// A tokenizer that cannot be used does not stop the weights: scoring by token ids needs none.
Result<FoundTokenizer> find_tokenizer(Files& files, const std::string& folder,
                                      const ModelConfig& config) {
  const std::string path = join_path(folder, kTokenizerFile);
  if (!files.stat(path).ok()) return FoundTokenizer{"", "", "no tokenizer.json"};
  MUSTER_TRY(std::string text, read_file(files, path));
  const auto tokenizer = tokenizer_from_json(text);
  if (!tokenizer.ok()) return FoundTokenizer{"", "", tokenizer.error().to_string()};
  if (tokenizer->vocabulary_size() > config.vocab_size)
    return Error(Code::corrupt,
                 fmt::format("{} has {} tokens, the embedding {} rows: they do not belong together",
                             path, tokenizer->vocabulary_size(), config.vocab_size));
  return FoundTokenizer{std::move(text), tokenizer->fingerprint().hex(), ""};
}

Result<Imported> import(World& world, const std::string& from, const std::string& to) {
  RealFiles files("");
  MUSTER_TRY(const ModelConfig config, read_hf_config(files, from));
  MUSTER_TRY(const ModelSpec spec, make_model_spec(config, Real::f32));
  MUSTER_TRY(HfWeights weights, HfWeights::open(files, from, spec));
  MUSTER_TRY(FoundTokenizer tokenizer, find_tokenizer(files, from, config));
  std::vector<std::vector<float>> values(spec.params.size());
  for (size_t i = 0; i < values.size(); ++i) {
    values[i].resize(static_cast<size_t>(spec.params[i].count()));
    MUSTER_TRY(weights.read(spec.params[i], std::span(values[i])));
  }
  Imported result{config, spec.parameter_count(), spec.params.size(), !tokenizer.json.empty(),
                  tokenizer.note};
  const auto elements = [&](const Param& param) {
    return std::as_bytes(
        std::span<const float>(values[static_cast<size_t>(&param - spec.params.data())]));
  };
  MUSTER_TRY(write_model_checkpoint(files, world.clock, world.random, to, spec, elements,
                                    std::move(tokenizer.json), std::move(tokenizer.fingerprint)));
  return result;
}

}  // namespace

int import_hf_main(World& world, const std::vector<std::string>& arguments) {
  std::string from, to;
  bool json = false;
  Options options("import-hf", "make a checkpoint from a Hugging Face model folder");
  options.positional("HF_DIR", from,
                     "config.json with model.safetensors or its shards; tokenizer.json if there");
  options.value("-o,--output", to, "the checkpoint folder to make; must not exist");
  options.flag("--json", json, "one JSON object on standard output");
  options.footer(
      "Reads LlamaForCausalLM and GPT2LMHeadModel in F32, F64, BF16 or F16; stores float32.\n"
      "Exit codes: 0 imported, 1 the folder cannot be read or is not such a model, 2 the arguments "
      "are wrong.");
  if (const auto code = options.parse(arguments)) return *code;
  if (to.empty()) {
    fmt::print(stderr, "muster import-hf: -o DIR is missing; see muster import-hf --help\n");
    return kExitUsage;
  }
  const auto imported = import(world, from, to);
  if (!imported.ok()) {
    fmt::print(stderr, "muster import-hf: {}\n", imported.error().to_string());
    return kExitFailed;
  }
  if (!imported->tokenizer)
    fmt::print(
        stderr,
        "muster import-hf: without a tokenizer ({}): score and generate take token ids only\n",
        imported->note);
  if (json) {
    const nlohmann::ordered_json out = {
        {"checkpoint", to},
        {"family", std::string(family_name(imported->config.family))},
        {"parameters", imported->parameters},
        {"tensors", imported->tensors},
        {"tokenizer", imported->tokenizer}};
    fmt::print("{}\n", out.dump());
  } else {
    fmt::print("{}: {} model, {} parameters in {} tensors{}\n", to,
               family_name(imported->config.family), imported->parameters, imported->tensors,
               imported->tokenizer ? ", with its tokenizer" : "");
  }
  return kExitOk;
}

}  // namespace muster
