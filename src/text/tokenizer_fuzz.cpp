// The input is a tokenizer.json, a zero byte, and a text to encode with it.
#include <string_view>

#include "base/check.h"
#include "base/fuzz.h"
#include "text/bpe_trainer.h"
#include "text/tokenizer_json.h"

namespace muster {

std::vector<std::string> fuzz_seeds() {
  const std::string_view texts[] = {"the other than that, then there \n"};
  std::vector<std::string> seeds;
  for (const SplitPattern pattern : {SplitPattern::gpt2, SplitPattern::cl100k}) {
    const auto made =
        train_bpe(texts, {.vocabulary_size = 264, .specials = code_specials(), .pattern = pattern});
    MUSTER_CHECK(made.ok());
    seeds.push_back(tokenizer_to_json(*made) + std::string(1, '\0') +
                    "then <|endoftext|> é 12 \xff");
  }
  return seeds;
}

}  // namespace muster

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  const size_t cut = input.find('\0');
  const auto tokenizer = muster::tokenizer_from_json(input.substr(0, cut));
  if (!tokenizer.ok()) return 0;
  const std::string_view text = cut == std::string_view::npos ? "" : input.substr(cut + 1);
  const auto ids = tokenizer->encode(text, muster::SpecialText::recognise);
  if (!tokenizer->decode(ids).ok()) __builtin_trap();
  return 0;
}
