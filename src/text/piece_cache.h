// PieceCache: the ids of short pieces met before. Bounded open addressing: a piece of at most 15
// bytes whose ids number at most 4 has a place in the one line of 64 bytes that its hash names, two
// places a line, the newer first. Keys are whole pieces, so a hit is exact. One thread.
#pragma once

#include <cstdint>
#include <cstring>

#include "base/check.h"
#include "text/huge_allocator.h"
#include "text/short_key.h"

namespace muster {

class PieceCache {
 public:
  static constexpr size_t kMaxIds = 4;
  static constexpr uint32_t kIdMask = 0x00FFFFFF;  // the top byte of ids[0] is their count

  struct Entry {
    ShortKey key;  // high == 0: empty
    uint32_t ids[4];
  };
  struct alignas(64) Line {
    Entry entries[2];
  };

  explicit PieceCache(int lines_log2) : lines_(size_t{1} << lines_log2), shift_(64 - lines_log2) {}

  Line* line_of(const ShortKey& key) { return &lines_[key.hash() >> shift_]; }

  static const Entry* find(const Line* line, const ShortKey& key) {
    for (const Entry& entry : line->entries)
      if (entry.key == key) return &entry;
    return nullptr;
  }

  static void insert(Line* line, const ShortKey& key, const uint32_t* ids, size_t count) {
    MUSTER_DCHECK(count >= 1 && count <= kMaxIds);
    line->entries[1] = line->entries[0];
    Entry& entry = line->entries[0];
    entry.key = key;
    std::memset(entry.ids, 0, sizeof entry.ids);
    std::memcpy(entry.ids, ids, count * sizeof(uint32_t));
    entry.ids[0] |= static_cast<uint32_t>(count) << 24;
  }

 private:
  HugeVector<Line> lines_;
  int shift_;
};

}  // namespace muster
