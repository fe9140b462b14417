#include "comm/operation.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/hash.h"

namespace muster {

int64_t Operation::largest_slice() const {
  int64_t largest = 0;
  for (size_t r = 0; r + 1 < bounds.size(); ++r)
    largest = std::max(largest, bounds[r + 1] - bounds[r]);
  return largest;
}

Fingerprint fingerprint(const Operation& operation) {
  Fingerprint out;
  out.sequence = operation.sequence;
  out.kind = static_cast<uint32_t>(operation.kind);
  out.type = static_cast<uint32_t>(operation.type);
  out.op = static_cast<uint32_t>(operation.op);
  out.count = operation.count;
  out.leaves = operation.leaves;
  out.bounds_hash = xxh3_64(
      {reinterpret_cast<const char*>(operation.bounds.data()), operation.bounds.size() * 8});
  return out;
}

std::string describe(const Fingerprint& f) {
  constexpr const char* kKinds[] = {"barrier", "all_reduce", "reduce_scatter", "all_gather",
                                    "leave"};
  constexpr const char* kTypes[] = {"bytes", "float32", "float64", "int64"};
  const char* kind = f.kind < std::size(kKinds) ? kKinds[f.kind] : "unknown operation";
  std::string text = fmt::format("{} #{}", kind, f.sequence);
  if (f.count > 0) text += fmt::format(" of {} {}", f.count, kTypes[f.type % std::size(kTypes)]);
  if (f.leaves > 0) text += fmt::format(", {} over {} leaves", f.op == 0 ? "sum" : "max", f.leaves);
  return text;
}

std::string describe(const Operation& operation) {
  return describe(fingerprint(operation));
}

std::string describe_difference(int rank, const Fingerprint& mine, int peer,
                                const Fingerprint& theirs) {
  std::string mine_text = describe(mine), their_text = describe(theirs);
  if (mine_text == their_text) their_text += " with other slices";
  return fmt::format("ranks disagree: rank {} is in {}, rank {} in {}", rank, mine_text, peer,
                     their_text);
}

}  // namespace muster
