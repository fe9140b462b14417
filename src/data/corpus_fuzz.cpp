// The input is a line of a JSONL corpus, and a loader cursor.
#include <string_view>

#include "base/fuzz.h"
#include "data/corpus.h"
#include "data/loader.h"
#include "text/utf8.h"

namespace muster {

std::vector<std::string> fuzz_seeds() {
  return {R"({"text": "some \u00e9 \ud83d\ude00 text\n", "other": [1, {"x": null}]})",
          LoaderCursor{.seed = 5, .epoch = 1, .group = 2, .sequence = 3, .sequences_taken = 4}
              .to_text()};
}

}  // namespace muster

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace muster;
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  const auto text = jsonl_text(input, "text");
  if (text.ok() && valid_utf8_prefix(*text) != text->size()) __builtin_trap();
  const auto cursor = LoaderCursor::from_text(input);
  if (!cursor.ok()) return 0;
  const auto again = LoaderCursor::from_text(cursor->to_text());
  if (!again.ok() || !(*again == *cursor)) __builtin_trap();
  return 0;
}
