#include "text/token_trie.h"

#include <algorithm>
#include <cstring>

#include "base/check.h"

namespace muster {

// Nodes are placed breadth first, so the upper levels, which every walk reads, lie close together.
class TokenTrie::Builder {
 public:
  using Tokens = std::vector<std::pair<std::string_view, uint32_t>>;

  Builder(TokenTrie& trie, const Tokens& tokens) : trie_(trie), tokens_(tokens) {
    grow(1024);
    // The first 256 slots stay empty: a node without children has base 0 and finds nothing there.
    for (uint32_t slot = 0; slot < 256; ++slot) take(slot);
  }

  void build() {
    std::vector<Range> queue{{0, tokens_.size(), 0, kRoot}};
    for (size_t head = 0; head < queue.size(); ++head) {
      const Range range = queue[head];
      size_t at = range.begin;
      uint64_t value = 0;
      if (at < range.end && tokens_[at].first.size() == range.depth)
        value = tokens_[at++].second + 1u;
      std::vector<uint8_t> labels;
      const size_t first_child = queue.size();
      while (at < range.end) {
        const uint8_t label = label_of(at, range.depth);
        const size_t begin = at;
        while (at < range.end && label_of(at, range.depth) == label) ++at;
        labels.push_back(label);
        queue.push_back({begin, at, range.depth + 1, 0});
      }
      uint64_t base = 0;
      if (!labels.empty()) {
        base = find_base(labels);
        for (size_t i = 0; i < labels.size(); ++i) {
          const auto slot = static_cast<uint32_t>(base + labels[i]);
          take(slot);
          trie_.nodes_[slot] = kUsed | labels[i];
          queue[first_child + i].slot = slot;
        }
        base_used_[base] = true;
      }
      MUSTER_CHECK(base <= kBaseMask, base);
      uint64_t& node = range.slot == kRoot ? trie_.root_ : trie_.nodes_[range.slot];
      node |= base << kBaseShift | value << kValueShift;
    }
    trie_.nodes_.resize(last_taken_ + 257);  // a step from any base stays inside
  }

 private:
  static constexpr uint32_t kRoot = ~uint32_t{0};
  struct Range {
    size_t begin, end, depth;
    uint32_t slot;
  };

  uint8_t label_of(size_t token, size_t depth) const {
    return static_cast<uint8_t>(tokens_[token].first[depth]);
  }

  // Free slots form a doubly linked list in rising order; slot size() is its end.
  void grow(size_t size) {
    const size_t old = trie_.nodes_.size();
    trie_.nodes_.resize(size, 0);
    base_used_.resize(size, false);
    next_.resize(size + 1);
    previous_.resize(size + 1);
    for (size_t slot = old; slot < size; ++slot) {
      next_[slot] = static_cast<uint32_t>(slot + 1);
      previous_[slot + 1] = static_cast<uint32_t>(slot);
    }
    if (old == 0) first_ = 0;
  }

  void take(uint32_t slot) {
    const uint32_t next = next_[slot];
    if (slot == first_) {
      first_ = next;
    } else {
      next_[previous_[slot]] = next;
    }
    previous_[next] = slot == first_ ? 0 : previous_[slot];
    next_[slot] = kTaken;
    last_taken_ = std::max(last_taken_, slot);
  }

  bool is_free(size_t slot) const { return next_[slot] != kTaken; }

  size_t find_base(const std::vector<uint8_t>& labels) {
    // A node with many children rarely fits into holes: give up soon and use fresh room.
    int tries = 512;
    for (size_t slot = first_;; slot = next_[slot]) {
      if (--tries == 0 && last_taken_ > slot) slot = last_taken_ + 1;
      if (slot + 512 >= trie_.nodes_.size()) grow(trie_.nodes_.size() * 2);
      if (slot < 256u + labels[0]) continue;
      const size_t base = slot - labels[0];
      if (base_used_[base]) continue;
      bool fits = true;
      for (size_t i = 1; i < labels.size() && fits; ++i) fits = is_free(base + labels[i]);
      if (fits) return base;
    }
  }

  static constexpr uint32_t kTaken = ~uint32_t{0};
  TokenTrie& trie_;
  const Tokens& tokens_;
  std::vector<bool> base_used_;
  std::vector<uint32_t> next_, previous_;
  uint32_t first_ = 0;
  uint32_t last_taken_ = 0;
};

TokenTrie::TokenTrie(std::vector<std::pair<std::string_view, uint32_t>> tokens) {
  std::sort(tokens.begin(), tokens.end());
  for (const auto& [bytes, value] : tokens) {
    MUSTER_CHECK(!bytes.empty());
    MUSTER_CHECK(value < (1u << 27), value);
  }
  Builder(*this, tokens).build();
}

uint32_t TokenTrie::find(std::string_view bytes) const {
  Walk walk(*this);
  for (const char byte : bytes)
    if (!walk.step(static_cast<uint8_t>(byte))) return kNone;
  return !bytes.empty() && walk.has_value() ? walk.value() : kNone;
}

}  // namespace muster
