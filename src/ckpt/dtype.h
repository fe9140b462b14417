// Dtype: element types of stored tensors, with the names that the safetensors format gives them.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace muster {

enum class Dtype : uint8_t {
  boolean,
  u8,
  i8,
  f8_e5m2,
  f8_e4m3,
  i16,
  u16,
  f16,
  bf16,
  i32,
  u32,
  f32,
  f64,
  i64,
  u64,
};

// "F32", "BF16", …
std::string_view dtype_name(Dtype dtype);
std::optional<Dtype> dtype_of(std::string_view name);
int64_t dtype_bytes(Dtype dtype);

}  // namespace muster
