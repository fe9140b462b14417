// muster generate: a checkpoint's model goes on with a prompt, or fills the middle between a prefix
// and a suffix.
#include <fmt/format.h>

#include <cstdio>
#include <nlohmann/json.hpp>
#include <optional>

#include "app/cli/options.h"
#include "app/trainer/load_checkpoint.h"
#include "app/trainer/trainer_verbs.h"
#include "sys/real_files.h"
#include "train/model/straight_pass.h"
#include "train/serve/generate.h"
#include "train/serve/prompt.h"

namespace muster {
namespace {

struct Arguments {
  std::string checkpoint;
  std::optional<std::string> prompt, prefix, suffix;
  int64_t max_tokens = 128, top_k = 0, threads = 1;
  std::optional<int64_t> seed;
  double temperature = 0, top_p = 1;
  bool json = false;
};

struct Text {
  std::string text;
  int64_t tokens = 0;
  double tokens_per_second = 0;
};

Result<Text> run(World& world, const Arguments& arguments) {
  RealFiles files("");
  MUSTER_TRY(auto loaded, load_checkpoint<float>(files, arguments.checkpoint));
  if (!loaded.tokenizer)
    return Error(Code::invalid_argument,
                 "the checkpoint has no tokenizer, so it cannot read a prompt");
  const Tokenizer& tokenizer = *loaded.tokenizer;
  GenerateRequest request;
  if (arguments.prompt) {
    MUSTER_TRY(request.prompt, completion_prompt(tokenizer, *arguments.prompt));
  } else {
    MUSTER_TRY(request.prompt, infill_prompt(tokenizer, arguments.prefix.value_or(""),
                                             arguments.suffix.value_or("")));
  }
  request.max_tokens = arguments.max_tokens;
  request.sampling = {arguments.temperature, arguments.top_k, arguments.top_p,
                      static_cast<uint64_t>(arguments.seed.value_or(0))};
  MUSTER_TRY(validate(request.sampling));
  MUSTER_TRY(const int32_t end_of_text, end_of_text_id(tokenizer));
  request.stop = {end_of_text};
  const int threads = static_cast<int>(arguments.threads);
  const int64_t capacity = most_tokens(request, loaded.model->config().context);
  const auto isa = world.environment.find("MUSTER_ISA");
  MUSTER_TRY(auto engine,
             Engine::make(threads,
                          StraightPass<float>::arena_bytes(loaded.model->spec(), capacity, threads),
                          isa == world.environment.end() ? "" : isa->second));
  MUSTER_TRY(auto decoder, Decoder<float>::make(*loaded.model, engine->exec(), capacity));
  StreamDecoder stream(tokenizer, true);
  Text result;
  std::optional<Error> failure;
  const Nanos begin = world.clock.now();
  MUSTER_TRY(const Generated made, generate<float>(decoder, request, [&](int32_t id) {
               auto piece = stream.next(static_cast<uint32_t>(id));
               if (!piece.ok()) {
                 failure = piece.error();
                 return false;
               }
               result.text += *piece;
               if (!arguments.json) fmt::print("{}", *piece), std::fflush(stdout);
               return true;
             }));
  if (failure) return *failure;
  const std::string rest = stream.finish();
  result.text += rest;
  if (!arguments.json) fmt::print("{}\n", rest);
  result.tokens = static_cast<int64_t>(made.tokens.size());
  const double seconds = static_cast<double>((world.clock.now() - begin).count()) * 1e-9;
  result.tokens_per_second = seconds > 0 ? static_cast<double>(result.tokens) / seconds : 0;
  return result;
}

}  // namespace

int generate_main(World& world, const std::vector<std::string>& words) {
  Arguments arguments;
  Options options("generate",
                  "Lets a checkpoint's model go on with --prompt, or write what lies between "
                  "--prefix and --suffix.");
  options.value("--checkpoint", arguments.checkpoint,
                "checkpoint folder, or a run folder (its newest checkpoint)");
  options.value("--prompt", arguments.prompt, "text to go on with");
  options.value("--prefix", arguments.prefix, "text before the gap");
  options.value("--suffix", arguments.suffix, "text behind the gap");
  options.value("--max-tokens", arguments.max_tokens,
                "new tokens at most (default 128; 0 = to the end of the context)");
  options.value("--temperature", arguments.temperature, "0 (default) takes the likeliest token");
  options.value("--top-k", arguments.top_k, "draw among the k likeliest only (0 = all)");
  options.value("--top-p", arguments.top_p,
                "draw among the likeliest that reach this probability (default 1)");
  options.value("--seed", arguments.seed, "the same seed gives the same text (default 0)");
  options.value("--threads", arguments.threads, "compute threads (default 1)");
  options.flag("--json", arguments.json, "one JSON object on standard output");
  options.footer("Exit codes: 0 done, 1 failed, 2 wrong arguments.");
  if (const auto code = options.parse(words)) return *code;
  const bool infill = arguments.prefix || arguments.suffix;
  if (arguments.checkpoint.empty() || arguments.prompt.has_value() == infill ||
      arguments.max_tokens < 0) {
    fmt::print(stderr,
               "muster generate: give --checkpoint DIR and either --prompt TEXT or --prefix TEXT "
               "--suffix TEXT; --max-tokens is not negative\n");
    return kExitUsage;
  }
  if (arguments.threads < 1 || arguments.threads > kMostThreads) {
    fmt::print(stderr, "muster generate: --threads {} is not between 1 and {}\n", arguments.threads,
               kMostThreads);
    return kExitUsage;
  }
  const auto text = run(world, arguments);
  if (!text.ok()) {
    fmt::print(stderr, "muster generate: {}\n", text.error().to_string());
    return kExitFailed;
  }
  if (arguments.json) {
    const nlohmann::ordered_json json = {{"text", text->text},
                                         {"tokens", text->tokens},
                                         {"tokens_per_second", text->tokens_per_second}};
    fmt::print("{}\n", json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
  }
  return kExitOk;
}

}  // namespace muster
