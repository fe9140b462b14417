// muster export-hf DIR -o HF_DIR: a checkpoint's model becomes a folder that transformers loads.
#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <vector>

#include "app/cli/options.h"
#include "app/cli/verb.h"
#include "sys/real_files.h"
#include "train/spec/checkpoint_model.h"
#include "train/spec/hf_weights.h"

namespace muster {
namespace {

constexpr std::string_view kTokenizerConfigFile = "tokenizer_config.json";

struct Exported {
  int64_t parameters = 0;
  int64_t step = 0;
  bool tokenizer = false;
};

// transformers takes tokenizer.json as it is with this class; without the file it guesses one by
// model type.
std::string tokenizer_config() {
  const nlohmann::ordered_json json = {{"tokenizer_class", "PreTrainedTokenizerFast"},
                                       {"clean_up_tokenization_spaces", false}};
  return json.dump(2) + "\n";
}

Result<Exported> export_model(const std::string& from, const std::string& to) {
  RealFiles files("");
  // What is written here, and what transformers would read beside it.
  for (const std::string_view name :
       {kModelConfigFile, std::string_view("model.safetensors"),
        std::string_view("model.safetensors.index.json"), kTokenizerFile, kTokenizerConfigFile}) {
    if (files.stat(join_path(to, name)).ok())
      return Error(Code::already_exists,
                   fmt::format("{} is there already; give another folder", join_path(to, name)));
  }
  MUSTER_TRY(CheckpointReader reader, CheckpointReader::open(files, from));
  MUSTER_TRY(const ModelConfig config, read_checkpoint_config(reader));
  MUSTER_TRY(const ModelSpec spec, make_model_spec(config, Real::f32));
  std::vector<std::vector<float>> values(spec.params.size());
  for (size_t i = 0; i < values.size(); ++i) {
    values[i].resize(static_cast<size_t>(spec.params[i].count()));
    MUSTER_TRY(load_parameter(reader, spec.params[i], std::span(values[i])));
  }
  MUSTER_TRY(write_hf_folder(files, to, spec, [&](const Param& param) {
    return std::as_bytes(
        std::span<const float>(values[static_cast<size_t>(&param - spec.params.data())]));
  }));
  Exported result{spec.parameter_count(), reader.manifest().scalars.step, false};
  const auto tokenizer = reader.attachment(kTokenizerFile);
  if (tokenizer.ok()) {
    MUSTER_TRY(write_file_durably(files, join_path(to, kTokenizerFile), *tokenizer));
    MUSTER_TRY(write_file_durably(files, join_path(to, kTokenizerConfigFile), tokenizer_config()));
    result.tokenizer = true;
  } else if (tokenizer.error().code() != Code::not_found) {
    return tokenizer.error();
  }
  return result;
}

}  // namespace

int export_hf_main(World&, const std::vector<std::string>& arguments) {
  std::string from, to;
  bool json = false;
  Options options("export-hf", "write a checkpoint's model as a Hugging Face folder");
  options.positional("DIR", from, "a checkpoint folder");
  options.value(
      "-o,--output", to,
      "the folder to write: config.json, model.safetensors, tokenizer.json; none may be there");
  options.flag("--json", json, "one JSON object on standard output");
  options.footer(
      "Exit codes: 0 exported, 1 the checkpoint is damaged or the folder cannot be written, 2 the "
      "arguments are wrong.");
  if (const auto code = options.parse(arguments)) return *code;
  if (to.empty()) {
    fmt::print(stderr, "muster export-hf: -o HF_DIR is missing; see muster export-hf --help\n");
    return kExitUsage;
  }
  const auto exported = export_model(from, to);
  if (!exported.ok()) {
    fmt::print(stderr, "muster export-hf: {}\n", exported.error().to_string());
    return kExitFailed;
  }
  if (json) {
    const nlohmann::ordered_json out = {{"folder", to},
                                        {"parameters", exported->parameters},
                                        {"step", exported->step},
                                        {"tokenizer", exported->tokenizer}};
    fmt::print("{}\n", out.dump());
  } else {
    fmt::print("{}: {} parameters of step {}{}\n", to, exported->parameters, exported->step,
               exported->tokenizer ? ", with the tokenizer" : "");
  }
  return kExitOk;
}

}  // namespace muster
