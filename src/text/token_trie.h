// A trie over the byte strings of a vocabulary, as a double array of 8-byte nodes: the child of a
// node by byte c is node base + c if that one is labelled c. No two nodes share a base, so the
// label alone proves the edge. Built once, then read only (any thread).
#pragma once

#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

#include "text/huge_allocator.h"

namespace muster {

class TokenTrie {
 public:
  static constexpr uint32_t kNone = ~uint32_t{0};

  TokenTrie() : TokenTrie(std::vector<std::pair<std::string_view, uint32_t>>()) {}
  // Distinct non-empty byte strings with values below 2^27.
  explicit TokenTrie(std::vector<std::pair<std::string_view, uint32_t>> tokens);

  // Walks from the root along a text.
  class Walk {
   public:
    explicit Walk(const TokenTrie& trie) : nodes_(trie.nodes_.data()), node_(trie.root_) {}
    // False when no token goes on with `byte`; the walk is over then.
    bool step(uint8_t byte) {
      node_ = nodes_[(node_ >> kBaseShift & kBaseMask) + byte];
      return (node_ & kLabelMask) == (kUsed | byte);
    }
    // Value of the token that ends here, kNone if none does.
    uint32_t value() const { return static_cast<uint32_t>(node_ >> kValueShift) - 1; }
    bool has_value() const { return node_ >> kValueShift != 0; }

   private:
    const uint64_t* nodes_;
    uint64_t node_;
  };

  // The value of exactly `bytes`.
  uint32_t find(std::string_view bytes) const;
  size_t node_count() const { return nodes_.size(); }

 private:
  // A node: label and a used bit in bits 0-8, base in 9-35, value + 1 in 36-63.
  static constexpr uint64_t kUsed = 256, kLabelMask = 511, kBaseMask = (uint64_t{1} << 27) - 1;
  static constexpr int kBaseShift = 9, kValueShift = 36;

  class Builder;
  HugeVector<uint64_t> nodes_;
  uint64_t root_ = 0;
};

}  // namespace muster
