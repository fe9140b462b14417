// muster tokenizer train|encode|decode: makes a vocabulary, and turns text into ids and back.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cstdio>
#include <cstring>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <thread>

#include "app/cli/options.h"
#include "app/cli/verb.h"
#include "data/cache_folder.h"
#include "data/corpus.h"
#include "sys/real_files.h"
#include "text/bpe_trainer.h"
#include "text/tokenizer_json.h"

namespace muster {

namespace {

constexpr const char* kCodes =
    "Exit codes: 0 done, 1 it failed (the reason is on standard error), 2 the arguments are wrong.";

int fail(const Error& error) {
  fmt::print(stderr, "muster tokenizer: {}\n", error.to_string());
  return kExitFailed;
}

int usage(std::string_view message) {
  fmt::print(stderr, "muster tokenizer: {}\n", message);
  return kExitUsage;
}

// The bytes of `path`; of standard input for "" and "-".
Result<std::string> read_input(Files& files, const std::string& path) {
  if (!path.empty() && path != "-") return read_file(files, path);
  std::string text;
  char buffer[1 << 16];
  for (;;) {
    const ssize_t n = read(STDIN_FILENO, buffer, sizeof buffer);
    if (n == 0) return text;
    if (n < 0) {
      if (errno == EINTR) continue;
      return errno_error(errno, "read standard input");
    }
    text.append(buffer, static_cast<size_t>(n));
  }
}

Status write_output(Files& files, const std::string& path, std::string_view bytes) {
  if (!path.empty()) {
    MUSTER_TRY(const FileHandle file, files.open(path, {.mode = OpenMode::write_truncate}));
    const Status written = files.append(file, std::as_bytes(std::span(bytes)));
    const Status closed = files.close(file);
    return written.ok() ? closed : written;
  }
  if (std::fwrite(bytes.data(), 1, bytes.size(), stdout) != bytes.size() ||
      std::fflush(stdout) != 0)
    return errno_error(errno, "write standard output");
  return {};
}

bool ends_with_any(const std::string& name, std::initializer_list<std::string_view> endings) {
  return std::any_of(endings.begin(), endings.end(),
                     [&](std::string_view ending) { return name.ends_with(ending); });
}

std::optional<SplitPattern> pattern_named(std::string_view name) {
  if (name == "llama3") return SplitPattern::cl100k;
  for (const SplitPattern pattern :
       {SplitPattern::none, SplitPattern::gpt2, SplitPattern::cl100k, SplitPattern::qwen2})
    if (split_pattern_name(pattern) == name) return pattern;
  return std::nullopt;
}

int train(World& world, const std::vector<std::string>& arguments) {
  std::vector<std::string> paths, specials, endings;
  int64_t vocabulary_size = 4096;
  int64_t threads = std::max(1u, std::thread::hardware_concurrency());
  std::string output = "tokenizer.json", pattern_name = "gpt2";
  bool bytes = false, no_special = false, json = false;
  Options options("tokenizer train", "train a byte-level BPE vocabulary on text files");
  options.positionals("PATHS", paths,
                      "files, folders (all files below), or .jsonl and .jsonl.zst (field 'text')",
                      false);
  options.value("--vocab-size", vocabulary_size,
                "tokens in all: special ones, 256 bytes, merges [4096]");
  options.values("--special", specials,
                 "special token (repeatable; ids from 0 in this order) [<|endoftext|> and the four "
                 "<fim_…> tokens]");
  options.flag("--no-special", no_special, "no special tokens");
  options.values("--ending", endings, "take only files whose name ends so (repeatable) [all]");
  options.value("--pattern", pattern_name,
                "splitting pattern: gpt2, cl100k (llama3), qwen2, none [gpt2]");
  options.flag("--bytes", bytes,
               "no training: a token for every byte and no merges; needs no PATHS");
  options.value("--threads", threads, "threads that count; the result does not depend on it");
  options.value("-o,--output", output, "file to write [tokenizer.json]");
  options.flag("--json", json, "one JSON object on standard output");
  options.footer(kCodes);
  if (const auto code = options.parse(arguments)) return *code;
  const auto pattern = pattern_named(pattern_name);
  if (!pattern) return usage(fmt::format("unknown pattern '{}'; see --help", pattern_name));
  if (no_special && !specials.empty())
    return usage("--special and --no-special exclude each other");
  if (specials.empty() && !no_special) specials = code_specials();
  if (paths.empty() && !bytes) return usage("no files to train on; see --help");
  if (threads < 1 || threads > 1024) return usage("--threads is not between 1 and 1024");
  if (vocabulary_size < 0 || vocabulary_size > int64_t{kMaxTokenId})
    return usage(fmt::format("--vocab-size is not between 256 and {}", kMaxTokenId));

  RealFiles files("");
  CorpusCounts counts;
  auto trained = [&]() -> Result<Tokenizer> {
    if (bytes) return Tokenizer::bytes(specials);
    CorpusSpec spec;
    const auto is_jsonl = [](const std::string& p) {
      return ends_with_any(p, {".jsonl", ".jsonl.zst"});
    };
    const auto lines = std::count_if(paths.begin(), paths.end(), is_jsonl);
    if (lines != 0 && lines != static_cast<ptrdiff_t>(paths.size()))
      return Error(Code::invalid_argument,
                   "JSONL files and others cannot be mixed; train on one kind");
    spec.kind = lines != 0 ? CorpusSpec::Kind::jsonl : CorpusSpec::Kind::files;
    spec.paths = paths;
    spec.endings = endings;
    spec.held_out_share = 0;
    spec.cache_folder = spool_folder(world.environment);
    MUSTER_TRY(const Corpus corpus, Corpus::open(files, world.random, spec));
    counts = corpus.counts();
    std::vector<std::string> documents;
    for (int64_t i = 0; i < corpus.size(Corpus::Part::train); ++i) {
      MUSTER_TRY(std::string document, corpus.read(Corpus::Part::train, i));
      documents.push_back(std::move(document));
    }
    const std::vector<std::string_view> texts(documents.begin(), documents.end());
    return train_bpe(texts, {.vocabulary_size = static_cast<uint32_t>(vocabulary_size),
                             .specials = specials,
                             .pattern = *pattern,
                             .threads = static_cast<int>(threads)});
  }();
  if (!trained) return fail(trained.error());
  if (const Status written = write_tokenizer(files, output, *trained); !written)
    return fail(written.error());
  int64_t skipped = 0;
  for (const CorpusCounts::Skipped& s : counts.skipped()) skipped += s.count;
  if (json) {
    nlohmann::ordered_json out = {{"tokenizer", output},
                                  {"vocabulary_size", trained->vocabulary_size()},
                                  {"merges", trained->parts().merges.size()},
                                  {"fingerprint", trained->fingerprint().hex()},
                                  {"documents", counts.documents},
                                  {"bytes", counts.bytes},
                                  {"skipped", skipped}};
    fmt::print("{}\n", out.dump());
  } else {
    fmt::print("{}: {} tokens, {} merges, from {} documents of {} bytes ({} skipped)\n", output,
               trained->vocabulary_size(), trained->parts().merges.size(), counts.documents,
               counts.bytes, skipped);
  }
  return kExitOk;
}

std::string little_endian(const std::vector<uint32_t>& ids) {
  std::string bytes;
  bytes.reserve(ids.size() * 4);
  for (const uint32_t id : ids)
    for (int shift = 0; shift < 32; shift += 8)
      bytes.push_back(static_cast<char>(id >> shift & 0xFF));
  return bytes;
}

int encode(const std::vector<std::string>& arguments) {
  std::string tokenizer_path = "tokenizer.json", input, output;
  bool recognise = false, add_special = false, json = false;
  Options options("tokenizer encode", "text to token ids");
  options.positional("FILE", input, "text file; standard input without it or for -", false);
  options.value("--tokenizer", tokenizer_path, "vocabulary to use [tokenizer.json]");
  options.flag("--special", recognise,
               "read the text of special tokens as those tokens (otherwise it stays text)");
  options.flag("--add-special-tokens", add_special,
               "put the tokens of the vocabulary's post-processor around the text");
  options.value("-o,--output", output, "write the ids here, 32-bit little-endian each");
  options.flag("--json", json, "{\"ids\": […], \"replaced\": N} on standard output");
  options.footer(
      std::string("Invalid UTF-8 is read as U+FFFD and counted (\"replaced\"). Without -o and "
                  "--json the ids are printed, space between.\n") +
      kCodes);
  if (const auto code = options.parse(arguments)) return *code;
  RealFiles files("");
  const auto tokenizer = read_tokenizer(files, tokenizer_path);
  if (!tokenizer) return fail(tokenizer.error());
  const auto text = read_input(files, input);
  if (!text) return fail(text.error());
  auto encoded =
      encode_text(*tokenizer, *text, recognise ? SpecialText::recognise : SpecialText::as_text);
  if (!encoded) return fail(encoded.error());
  std::vector<uint32_t> ids = std::move(encoded->ids);
  if (add_special) {
    auto around = tokenizer->with_special_tokens(std::move(ids));
    if (!around) return fail(around.error());
    ids = *std::move(around);
  }
  if (encoded->replaced != 0)
    fmt::print(stderr, "muster tokenizer: {} invalid UTF-8 sequences read as U+FFFD\n",
               encoded->replaced);
  if (!output.empty())
    if (const Status written = write_output(files, output, little_endian(ids)); !written)
      return fail(written.error());
  std::string shown;
  if (json) {
    nlohmann::ordered_json out;
    out["ids"] = ids;
    if (!output.empty()) out["output"] = output;
    out["replaced"] = encoded->replaced;
    shown = out.dump() + "\n";
  } else if (output.empty()) {
    for (const uint32_t id : ids) fmt::format_to(std::back_inserter(shown), "{} ", id);
    if (!shown.empty()) shown.back() = '\n';
  }
  if (const Status written = write_output(files, "", shown); !written) return fail(written.error());
  return kExitOk;
}

std::string not_an_id(std::string_view word) {
  const bool printable = std::all_of(word.begin(), word.end(), [](char c) {
    return std::isprint(static_cast<unsigned char>(c)) != 0;
  });
  if (!printable) return "this is not text; a file of 32-bit ids has a name that ends in .u32";
  return fmt::format("'{}' is no token id", word.substr(0, 40));
}

// Ids from 32-bit little-endian bytes, from a JSON object with "ids", or from numbers in text.
Result<std::vector<uint32_t>> parse_ids(const std::string& bytes, bool binary) {
  const auto wrong = [](std::string message) {
    return Error(Code::invalid_argument, std::move(message));
  };
  std::vector<uint32_t> ids;
  if (binary) {
    if (bytes.size() % 4 != 0)
      return wrong(fmt::format("{} bytes are not a whole number of 32-bit ids", bytes.size()));
    for (size_t i = 0; i < bytes.size(); i += 4) {
      uint32_t id = 0;
      for (int k = 3; k >= 0; --k)
        id = id << 8 | static_cast<uint8_t>(bytes[i + static_cast<size_t>(k)]);
      ids.push_back(id);
    }
    return ids;
  }
  std::string_view left = bytes;
  if (const size_t first = left.find_first_not_of(" \t\r\n");
      first != std::string_view::npos && left[first] == '{') {
    const auto object = nlohmann::json::parse(bytes, nullptr, false);
    if (!object.is_object() || !object.contains("ids") || !object["ids"].is_array())
      return wrong("the JSON object has no list 'ids'");
    for (const auto& id : object["ids"]) {
      if (!id.is_number_unsigned() || id.get<uint64_t>() > ~uint32_t{0})
        return wrong("'ids' holds something that is no id: " + id.dump());
      ids.push_back(id.get<uint32_t>());
    }
    return ids;
  }
  for (;;) {
    const size_t begin = left.find_first_not_of(" \t\r\n,[]");
    if (begin == std::string_view::npos) return ids;
    left.remove_prefix(begin);
    uint32_t id = 0;
    const auto [end, code] = std::from_chars(left.data(), left.data() + left.size(), id);
    const auto used = static_cast<size_t>(end - left.data());
    if (code != std::errc() || (used < left.size() && !std::strchr(" \t\r\n,[]", left[used])))
      return wrong(not_an_id(left.substr(0, left.find_first_of(" \t\r\n,"))));
    ids.push_back(id);
    left.remove_prefix(used);
  }
}

int decode(const std::vector<std::string>& arguments) {
  std::string tokenizer_path = "tokenizer.json", input, output;
  bool skip_special = false, json = false;
  Options options("tokenizer decode", "token ids to text");
  options.positional(
      "FILE", input,
      "ids: a .u32 file (32-bit little-endian), numbers in text, or what encode --json "
      "prints; standard input (text) without it or for -",
      false);
  options.value("--tokenizer", tokenizer_path, "vocabulary to use [tokenizer.json]");
  options.flag("--skip-special", skip_special, "leave special tokens out");
  options.value("-o,--output", output, "write the text here");
  options.flag("--json", json, "{\"text\": …} on standard output");
  options.footer(std::string("Bytes that are not UTF-8 become U+FFFD.\n") + kCodes);
  if (const auto code = options.parse(arguments)) return *code;
  RealFiles files("");
  const auto tokenizer = read_tokenizer(files, tokenizer_path);
  if (!tokenizer) return fail(tokenizer.error());
  const auto bytes = read_input(files, input);
  if (!bytes) return fail(bytes.error());
  const auto ids = parse_ids(*bytes, input.ends_with(".u32"));
  if (!ids) return fail(ids.error());
  const auto text = tokenizer->decode(*ids, skip_special);
  if (!text) return fail(text.error());
  if (!output.empty())
    if (const Status written = write_output(files, output, *text); !written)
      return fail(written.error());
  std::string shown;
  if (json) {
    nlohmann::ordered_json out;
    if (output.empty()) out["text"] = *text;
    if (!output.empty()) out["output"] = output;
    shown = out.dump() + "\n";
  } else if (output.empty()) {
    shown = *text;
  }
  if (const Status written = write_output(files, "", shown); !written) return fail(written.error());
  return kExitOk;
}

}  // namespace

int tokenizer_main(World& world, const std::vector<std::string>& arguments) {
  const std::string word = arguments.empty() ? "" : arguments[0];
  const std::vector<std::string> rest(arguments.begin() + !arguments.empty(), arguments.end());
  if (word == "train") return train(world, rest);
  if (word == "encode") return encode(rest);
  if (word == "decode") return decode(rest);
  const bool help = word == "-h" || word == "--help";
  fmt::print(help ? stdout : stderr,
             "usage: muster tokenizer train|encode|decode [OPTIONS]\n\n"
             "  train   make a tokenizer.json from text files\n"
             "  encode  text to token ids\n"
             "  decode  token ids to text\n\n"
             "`muster tokenizer WORD --help` explains one.\n{}\n",
             kCodes);
  return help ? kExitOk : kExitUsage;
}

}  // namespace muster
