// muster score: how likely a checkpoint's model finds tokens or a text.
#include <fmt/format.h>

#include <charconv>
#include <nlohmann/json.hpp>
#include <optional>

#include "app/cli/options.h"
#include "app/trainer/load_checkpoint.h"
#include "app/trainer/trainer_verbs.h"
#include "sys/real_files.h"
#include "train/evals/score.h"
#include "train/serve/prompt.h"

namespace muster {
namespace {

struct Arguments {
  std::string checkpoint, tokens, text_file, dtype = "float32";
  int64_t threads = 1, stride = 0;
  bool json = false;
};

// "5,17,3"
Result<std::vector<int32_t>> parse_ids(std::string_view text) {
  std::vector<int32_t> ids;
  while (!text.empty()) {
    const std::string_view item = text.substr(0, text.find(','));
    int32_t id = 0;
    const auto [end, status] = std::from_chars(item.data(), item.data() + item.size(), id);
    if (status != std::errc{} || end != item.data() + item.size()) {
      return Error(Code::invalid_argument,
                   fmt::format("'{}' is not a token id; write --tokens 5,17,3", item));
    }
    ids.push_back(id);
    text.remove_prefix(std::min(text.size(), item.size() + 1));
  }
  return ids;
}

struct Scored {
  Score score;
  size_t replaced = 0;  // invalid UTF-8 sequences of the text
};

template <class T>
Result<Scored> run(World& world, const Arguments& arguments) {
  RealFiles files("");
  MUSTER_TRY(auto loaded, load_checkpoint<T>(files, arguments.checkpoint));
  Scored scored;
  std::vector<int32_t> ids;
  if (!arguments.tokens.empty()) {
    MUSTER_TRY(ids, parse_ids(arguments.tokens));
  } else {
    if (!loaded.tokenizer) {
      return Error(Code::invalid_argument,
                   "the checkpoint has no tokenizer, so it can only score --tokens");
    }
    MUSTER_TRY(const std::string text, read_file(files, arguments.text_file));
    MUSTER_TRY(const EncodedText encoded,
               encode_text(*loaded.tokenizer, text, SpecialText::as_text));
    MUSTER_TRY(const int32_t begin, end_of_text_id(*loaded.tokenizer));
    ids.push_back(begin);
    ids.insert(ids.end(), encoded.ids.begin(), encoded.ids.end());
    scored.replaced = encoded.replaced;
  }
  const int64_t context = loaded.model->config().context;
  const int64_t stride =
      arguments.stride > 0 ? arguments.stride : std::max<int64_t>(1, context / 2);
  const int threads = static_cast<int>(arguments.threads);
  const auto isa = world.environment.find("MUSTER_ISA");
  MUSTER_TRY(
      auto engine,
      Engine::make(
          threads,
          score_arena_bytes<T>(
              *loaded.model, std::min<int64_t>(context, static_cast<int64_t>(ids.size())), threads),
          isa == world.environment.end() ? "" : isa->second));
  MUSTER_TRY(scored.score, score_tokens<T>(*loaded.model, engine->exec(), ids,
                                           loaded.tokenizer ? &*loaded.tokenizer : nullptr,
                                           std::min(stride, context)));
  return scored;
}

}  // namespace

int score_main(World& world, const std::vector<std::string>& words) {
  Arguments arguments;
  Options options("score",
                  "Log-probability of each token given those before it (natural logarithm), their "
                  "mean loss and bits "
                  "per byte.");
  options.value("--checkpoint", arguments.checkpoint,
                "checkpoint folder, or a run folder (its newest checkpoint)");
  options.value("--tokens", arguments.tokens, "token ids: 5,17,…");
  options.value("--text", arguments.text_file,
                "a text file; <|endoftext|> is put before it, and invalid UTF-8 is read as U+FFFD");
  options.value("--dtype", arguments.dtype, "float32 (default) or float64");
  options.value("--threads", arguments.threads, "compute threads (default 1)");
  options.value(
      "--stride", arguments.stride,
      "tokens between windows of a text longer than the context (default: 0, half of it)");
  options.flag("--json", arguments.json, "one JSON object on standard output");
  options.footer("Exit codes: 0 scored, 1 failed, 2 wrong arguments.");
  if (const auto code = options.parse(words)) return *code;
  const bool f64 = arguments.dtype == "float64";
  if (arguments.checkpoint.empty() || arguments.tokens.empty() == arguments.text_file.empty() ||
      (!f64 && arguments.dtype != "float32")) {
    fmt::print(stderr,
               "muster score: give --checkpoint DIR, one of --tokens and --text, and --dtype "
               "float32 or float64\n");
    return kExitUsage;
  }
  if (arguments.threads < 1 || arguments.threads > kMostThreads) {
    fmt::print(stderr, "muster score: --threads {} is not between 1 and {}\n", arguments.threads,
               kMostThreads);
    return kExitUsage;
  }
  if (arguments.stride < 0) {
    fmt::print(stderr, "muster score: --stride {} is negative; 0 is half the context\n",
               arguments.stride);
    return kExitUsage;
  }
  const auto scored = f64 ? run<double>(world, arguments) : run<float>(world, arguments);
  if (!scored.ok()) {
    fmt::print(stderr, "muster score: {}\n", scored.error().to_string());
    return kExitFailed;
  }
  if (scored->replaced != 0)
    fmt::print(stderr, "muster score: {} invalid UTF-8 sequences read as U+FFFD\n",
               scored->replaced);
  const Score* score = &scored->score;
  nlohmann::ordered_json json;
  json["logprobs"] = score->logprobs;
  const std::optional<double> bits_per_byte = score->total.bits_per_byte();
  json["loss"] = score->total.loss();
  json["bits_per_byte"] =
      bits_per_byte ? nlohmann::ordered_json(*bits_per_byte) : nlohmann::ordered_json(nullptr);
  json["replaced"] = scored->replaced;
  if (arguments.json) {
    fmt::print("{}\n", json.dump());
  } else {
    for (const double logprob : score->logprobs) fmt::print("{:.9g}\n", logprob);
    fmt::print("loss {:.6f} nats per token", score->total.loss());
    if (bits_per_byte) fmt::print(", {:.6f} bits per byte", *bits_per_byte);
    fmt::print("\n");
  }
  return kExitOk;
}

}  // namespace muster
