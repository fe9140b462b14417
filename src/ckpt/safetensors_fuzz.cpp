// libFuzzer entry: clang++ -std=c++20 -fsanitize=fuzzer,address -Isrc src/ckpt/safetensors_fuzz.cpp
// with the sources of ckpt, sys and base. The input is a whole file.
#include "ckpt/safetensors.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto bytes = std::as_bytes(std::span(data, size));
  const auto header = muster::parse_safetensors_header(bytes, size, "fuzz");
  if (!header.ok()) return 0;
  // What was accepted tiles the file.
  uint64_t at = header->data_begin;
  for (const auto& tensor : header->tensors) {
    if (tensor.begin != at || tensor.end < tensor.begin) __builtin_trap();
    at = tensor.end;
  }
  if (at != size) __builtin_trap();
  return 0;
}
