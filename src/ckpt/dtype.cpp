#include "ckpt/dtype.h"

#include <iterator>

namespace muster {

namespace {
struct Row {
  std::string_view name;
  int64_t bytes;
};
// In the order of Dtype.
constexpr Row kRows[] = {{"BOOL", 1}, {"U8", 1},  {"I8", 1},  {"F8_E5M2", 1}, {"F8_E4M3", 1},
                         {"I16", 2},  {"U16", 2}, {"F16", 2}, {"BF16", 2},    {"I32", 4},
                         {"U32", 4},  {"F32", 4}, {"F64", 8}, {"I64", 8},     {"U64", 8}};
static_assert(std::size(kRows) == static_cast<size_t>(Dtype::u64) + 1);
}  // namespace

std::string_view dtype_name(Dtype dtype) {
  return kRows[static_cast<size_t>(dtype)].name;
}

std::optional<Dtype> dtype_of(std::string_view name) {
  for (size_t i = 0; i < std::size(kRows); ++i)
    if (kRows[i].name == name) return static_cast<Dtype>(i);
  return std::nullopt;
}

int64_t dtype_bytes(Dtype dtype) {
  return kRows[static_cast<size_t>(dtype)].bytes;
}

}  // namespace muster
