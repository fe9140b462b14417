// The input is a configuration file.
#include <string_view>

#include "base/config.h"
#include "base/fuzz.h"

namespace muster {

static Schema schema() {
  Schema s;
  s.integer("train.steps", 100, 1, 1000, "steps");
  s.text("train.mode", "strict", "mode", {"strict", "fast"});
  s.duration("train.timeout", std::chrono::seconds{60}, std::chrono::seconds{1},
             std::chrono::hours{1}, "time-out");
  s.text_list("data.paths", {}, "paths");
  return s;
}

std::vector<std::string> fuzz_seeds() {
  return {"[train]\nsteps = 5\nmode = \"fast\"\ntimeout = \"5s\"\n[data]\npaths = [\"a\", 'b']\n",
          "train.steps = 0x10 # comment\n[[x]]\ny = {a = 1, b = [1979-05-27, 1e9]}\n"};
}

}  // namespace muster

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace muster;
  Config::Sources sources;
  sources.file_name = "fuzz.toml";
  sources.file_text = std::string(reinterpret_cast<const char*>(data), size);
  const auto config = Config::resolve(schema(), sources);
  if (config.ok() && (config->integer("train.steps") < 1 || config->integer("train.steps") > 1000))
    __builtin_trap();
  return 0;
}
