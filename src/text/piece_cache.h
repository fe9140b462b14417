// PieceCache: the ids of short pieces met before. Bounded open addressing: a piece of at most 15
// bytes whose ids number at most 4 has a place in the one line of 64 bytes that its hash names, two
// places a line, the newer first. Keys are whole pieces, so a hit is exact. One thread.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>

#include "base/check.h"
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

  explicit PieceCache(int lines_log2) : shift_(64 - lines_log2) {
    const size_t bytes = sizeof(Line) << lines_log2;
    // Untouched pages cost nothing, so a cache for a short text is cheap.
    memory_.reset(std::calloc(1, bytes + sizeof(Line)));
    if (memory_ == nullptr) throw std::bad_alloc();
    const auto address = reinterpret_cast<uintptr_t>(memory_.get());
    lines_ = reinterpret_cast<Line*>((address + sizeof(Line) - 1) & ~(sizeof(Line) - 1));
  }

  Line* line_of(const ShortKey& key) const { return lines_ + (key.hash() >> shift_); }

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
  struct Free {
    void operator()(void* p) const { std::free(p); }
  };
  std::unique_ptr<void, Free> memory_;
  Line* lines_;
  int shift_;
};

}  // namespace muster
