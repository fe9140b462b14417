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

namespace muster {

class PieceCache {
 public:
  static constexpr size_t kMaxBytes = 15;
  static constexpr size_t kMaxIds = 4;
  static constexpr uint32_t kIdMask = 0x00FFFFFF;  // the top byte of ids[0] is their count

  // The bytes of a piece, zero padded, its length in the top byte of `high`.
  struct Key {
    uint64_t low, high;
  };
  struct Entry {
    Key key;  // high == 0: empty
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

  // `p`: 16 readable bytes of which `size` (1..15) are the piece.
  static Key key_of(const uint8_t* p, size_t size) {
    uint64_t low, high;
    std::memcpy(&low, p, 8);
    std::memcpy(&high, p + 8, 8);
    if (size < 8) {
      low &= (uint64_t{1} << (size * 8)) - 1;
      high = 0;
    } else {
      high &= (uint64_t{1} << ((size - 8) * 8)) - 1;
    }
    return {low, high | static_cast<uint64_t>(size) << 56};
  }

  Line* line_of(const Key& key) const {
    const unsigned __int128 product =
        static_cast<unsigned __int128>(key.low ^ 0x9E3779B97F4A7C15u) *
        (key.high ^ 0xD6E8FEB86659FD93u);
    const auto mixed = static_cast<uint64_t>(product) ^ static_cast<uint64_t>(product >> 64);
    return lines_ + (mixed * 0x9E3779B97F4A7C15u >> shift_);
  }

  static const Entry* find(const Line* line, const Key& key) {
    for (const Entry& entry : line->entries)
      if (entry.key.low == key.low && entry.key.high == key.high) return &entry;
    return nullptr;
  }

  static void insert(Line* line, const Key& key, const uint32_t* ids, size_t count) {
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
