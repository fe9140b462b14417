// The input is a steps.jsonl.
#include <string_view>

#include "base/fuzz.h"
#include "train/loop/step_log.h"

namespace muster {

std::vector<std::string> fuzz_seeds() {
  StepRecord record;
  record.step = 7;
  record.loss = 2.5;
  record.tokens = 4096;
  record.seconds = 0.25;
  record.batches = "0/1/2";
  const std::string line = step_line(record);
  record.step = 8;
  return {line + "\n" + step_line(record) + "\n"};
}

}  // namespace muster

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace muster;
  int64_t skipped = 0;
  for (const StepRecord& record :
       parse_step_log({reinterpret_cast<const char*>(data), size}, &skipped)) {
    if (!parse_step_line(step_line(record)).ok()) __builtin_trap();
  }
  return 0;
}
