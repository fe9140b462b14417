// libFuzzer entry: the input is a tokenizer.json, a zero byte, and a text to encode with it. Not
// built by default: clang++ -fsanitize=fuzzer,address with this room's sources.
#include <cstdint>
#include <string_view>

#include "text/tokenizer_json.h"

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
