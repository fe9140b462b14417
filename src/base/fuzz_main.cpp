// Runs a fuzz target without libFuzzer: its seeds, then a fixed number of mutations of them, the
// same in every run. usage: PROGRAM [ITERATIONS [FIRST]]; a crash names its iteration, and
// `PROGRAM 1 THAT` repeats it alone.
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "base/fuzz.h"
#include "base/philox.h"

#if defined(__SANITIZE_ADDRESS__)
extern "C" void __sanitizer_set_death_callback(void (*callback)());
#endif

namespace muster {
namespace {

constexpr uint64_t kKey = 0x6d7573746572;
constexpr size_t kLongest = 64 << 10;
uint64_t iteration = 0;

void say_where() {
  char text[64];
  const int size = std::snprintf(text, sizeof text, "fuzz: in iteration %llu\n",
                                 static_cast<unsigned long long>(iteration));
  static_cast<void>(!write(2, text, static_cast<size_t>(size)));
}

void on_signal(int number) {
  say_where();
  signal(number, SIG_DFL);
  raise(number);
}

// Draws of one iteration.
struct Draw {
  uint64_t place = 0;
  size_t below(size_t n) {
    return n == 0 ? 0 : static_cast<size_t>(philox_below(n, kKey, iteration, place++));
  }
};

// Bytes that parsers stumble over.
const std::string& awkward(Draw& draw) {
  static const std::vector<std::string> kAwkward = {std::string(1, '\0'),
                                                    "\xff",
                                                    "\xc3\x28",
                                                    "\xed\xa0\x80",
                                                    "{",
                                                    "}",
                                                    "[",
                                                    "]",
                                                    "\"",
                                                    ",",
                                                    ":",
                                                    "\\u",
                                                    "\\",
                                                    "-1",
                                                    "0",
                                                    "1e999",
                                                    "null",
                                                    "18446744073709551616",
                                                    "\n",
                                                    "true",
                                                    "\xe2\x80\xa8",
                                                    std::string(8, '\xff'),
                                                    std::string(8, '\0'),
                                                    "9223372036854775807",
                                                    "[[[[[[[[",
                                                    "..",
                                                    "/"};
  return kAwkward[draw.below(kAwkward.size())];
}

void mutate(std::string& text, const std::vector<std::string>& seeds, Draw& draw) {
  const size_t at = draw.below(text.size() + 1);
  const size_t some =
      1 + draw.below(std::min<size_t>(text.size() - std::min(at, text.size()) + 1, 32));
  switch (draw.below(8)) {
    case 0:  // one bit
      if (at < text.size()) text[at] = static_cast<char>(text[at] ^ (1 << draw.below(8)));
      return;
    case 1:  // any byte
      if (at < text.size()) text[at] = static_cast<char>(draw.below(256));
      return;
    case 2:
      text.erase(std::min(at, text.size()), some);
      return;
    case 3:
      text.insert(at, awkward(draw));
      return;
    case 4:
      text.insert(at, text.substr(draw.below(text.size() + 1), some));
      return;
    case 5:
      text.resize(at);
      return;
    case 6: {  // the end of another seed
      const std::string& other = seeds[draw.below(seeds.size())];
      text = text.substr(0, at) + other.substr(draw.below(other.size() + 1));
      return;
    }
    default:  // a small integer moves
      if (at < text.size())
        text[at] = static_cast<char>(text[at] + 1 - 2 * static_cast<int>(draw.below(2)));
  }
}

void run(const std::string& input) {
  // A block of its own size, so that a sanitizer sees every byte read past the end.
  std::vector<uint8_t> bytes(input.begin(), input.end());
  LLVMFuzzerTestOneInput(bytes.data(), bytes.size());
}

int fuzz(uint64_t iterations, uint64_t first) {
  const std::vector<std::string> seeds = fuzz_seeds();
  for (const std::string& seed : seeds) run(seed);
  for (iteration = first; iteration < first + iterations; ++iteration) {
    alarm(20);  // an input that never ends
    Draw draw;
    std::string input = seeds[draw.below(seeds.size())];
    for (size_t left = 1 + draw.below(6); left > 0; --left) mutate(input, seeds, draw);
    input.resize(std::min(input.size(), kLongest));
    run(input);
  }
  std::printf("%zu seeds and %llu mutations of them\n", seeds.size(),
              static_cast<unsigned long long>(iterations));
  return 0;
}

}  // namespace
}  // namespace muster

int main(int argc, char** argv) {
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_set_death_callback(muster::say_where);
#endif
  for (const int number : {SIGABRT, SIGILL, SIGTRAP, SIGFPE, SIGALRM, SIGSEGV})
    signal(number, muster::on_signal);
  const uint64_t iterations = argc > 1 ? std::strtoull(argv[1], nullptr, 10) : 20'000;
  const uint64_t first = argc > 2 ? std::strtoull(argv[2], nullptr, 10) : 1;
  return muster::fuzz(iterations, first);
}
