// The input is a whole safetensors file.
#include "ckpt/safetensors.h"

#include "base/fuzz.h"

namespace muster {

std::vector<std::string> fuzz_seeds() {
  const std::string header =
      R"({"__metadata__":{"k":"v"},"a":{"dtype":"F32","shape":[2,2],"data_offsets":[0,16]},"b":{"dtype":"I64","shape":[1],"data_offsets":[16,24]}})";
  std::string padded = header + std::string((8 - header.size() % 8) % 8, ' ');
  std::string file(8, '\0');
  for (size_t i = 0; i < 8; ++i) file[i] = static_cast<char>(padded.size() >> (8 * i));
  return {file + padded + std::string(24, 'x')};
}

}  // namespace muster

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
