// A fuzz target is a file x_fuzz.cpp that defines both functions below. It is built into
// muster_fuzz_<room>_<x>: by default with the driver of base/fuzz_main.cpp, which ./dev test runs;
// with clang and -DMUSTER_LIBFUZZER=ON with libFuzzer.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace muster {

// Valid inputs, small: what mutations start from. At least one.
std::vector<std::string> fuzz_seeds();

}  // namespace muster

// Takes any bytes. A fault shows as a crash, a sanitizer's report, a trap or a time-out. Returns 0.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);
