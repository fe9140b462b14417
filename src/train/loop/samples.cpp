#include "train/loop/samples.h"

#include <algorithm>
#include <string_view>

#include "train/serve/generate.h"
#include "train/serve/prompt.h"

namespace muster {
namespace {

constexpr size_t kPromptBytes = 400;

size_t indent_of(std::string_view line) {
  const size_t first = line.find_first_not_of(" \t");
  return first == std::string_view::npos ? std::string_view::npos : first;  // npos: a blank line
}

// The whole lines that fit into `most` bytes, at least one line.
std::string head_lines(const std::string& text, size_t most) {
  if (text.size() <= most) return text;
  const size_t end = text.rfind('\n', most);
  if (end != std::string::npos && end > 0) return text.substr(0, end + 1);
  size_t cut = most;
  while (cut > 0 && (static_cast<unsigned char>(text[cut]) & 0xc0) == 0x80) --cut;
  return text.substr(0, cut);
}

}  // namespace

FunctionCut cut_function(const std::string& text, size_t most_bytes) {
  size_t begin = 0;
  while (begin < text.size()) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    const std::string_view line = std::string_view(text).substr(begin, end - begin);
    const size_t indent = indent_of(line);
    const bool is_def = indent != std::string_view::npos &&
                        line.substr(indent).starts_with("def ") && line.ends_with(":");
    if (is_def) {
      size_t body_end = end + 1;
      while (body_end < text.size()) {
        const size_t next = std::min(text.find('\n', body_end), text.size());
        const size_t depth = indent_of(std::string_view(text).substr(body_end, next - body_end));
        if (depth != std::string_view::npos && depth <= indent) break;
        body_end = next + 1;
      }
      body_end = std::min(body_end, text.size());
      if (body_end > end + 1 && body_end - end < most_bytes) {
        const size_t from = begin > most_bytes ? text.find('\n', begin - most_bytes) + 1 : 0;
        return {text.substr(std::min(from, begin), end + 1 - std::min(from, begin)),
                text.substr(end + 1, body_end - end - 1),
                head_lines(text.substr(body_end), most_bytes)};
      }
    }
    begin = end + 1;
  }
  return {};
}

Result<std::vector<Sample>> make_samples(const Warm& warm, const Model<float>& model,
                                         ops::Exec& exec, int64_t tokens, uint64_t seed) {
  std::vector<Sample> samples;
  Decoder<float> decoder(model, exec, warm.config.model.context);
  GenerateRequest request;
  request.max_tokens = tokens;
  request.sampling = {0.7, 0, 0.95, seed};
  request.stop = {warm.special.end_of_text};
  const auto write = [&](Sample sample, std::vector<int32_t> prompt) -> Status {
    // A prompt longer than the context leaves no room to write; its end is what matters.
    const auto room = static_cast<size_t>(std::max<int64_t>(1, warm.config.model.context - tokens));
    if (prompt.size() > room)
      prompt.erase(prompt.begin(), prompt.end() - static_cast<ptrdiff_t>(room));
    request.prompt = std::move(prompt);
    MUSTER_TRY(const Generated made, generate<float>(decoder, request, {}));
    const std::vector<uint32_t> ids(made.tokens.begin(), made.tokens.end());
    MUSTER_TRY(sample.text, warm.tokenizer.decode(ids, true));
    samples.push_back(std::move(sample));
    return {};
  };
  const int64_t documents = warm.corpus.size(Corpus::Part::held_out);
  bool infilled = !warm.special.has_fim() || warm.config.data.fim_rate == 0;
  for (int64_t i = 0; i < documents && (samples.size() < 2 || !infilled); ++i) {
    MUSTER_TRY(const std::string text,
               warm.corpus.read(Corpus::Part::held_out, i).context("samples"));
    if (samples.size() < 2) {
      const std::string head = head_lines(text, std::min(kPromptBytes, text.size() / 2 + 1));
      MUSTER_TRY(auto prompt, completion_prompt(warm.tokenizer, head));
      MUSTER_TRY(write({"completion", head, "", ""}, std::move(prompt)));
      continue;
    }
    FunctionCut cut = cut_function(text, kPromptBytes);
    if (cut.body.empty()) continue;
    MUSTER_TRY(auto prompt, infill_prompt(warm.tokenizer, cut.before, cut.after));
    MUSTER_TRY(write({"infill", cut.before, "", cut.after}, std::move(prompt)));
    infilled = true;
  }
  return samples;
}

}  // namespace muster
