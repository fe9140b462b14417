// Block: the unit of a segment file (segment.h): a checked, optionally compressed payload. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace muster {

enum class BlockKind : uint8_t {
  process = 1,
  names = 2,
  threads = 3,
  calibrations = 4,
  records = 5
};

inline constexpr size_t kBlockHeaderBytes = 24;
// A payload above this is refused by readers as damage: writers stay far below.
inline constexpr uint32_t kBlockPayloadLimit = 256u << 20;

// Compresses with zstd level 1 when that saves space.
std::string make_block(BlockKind kind, std::string_view payload);

struct Block {
  BlockKind kind;
  std::string payload;
};

// Walks the blocks of a file or of a part of one.
class BlockScanner {
 public:
  explicit BlockScanner(std::string_view bytes) : rest_(bytes) {}
  // The next whole block; nothing at the end. Damage is passed over and counted.
  std::optional<Block> next();
  uint64_t skipped_bytes() const { return skipped_; }

 private:
  std::optional<Block> take();
  std::string_view rest_;
  uint64_t skipped_ = 0;
};

}  // namespace muster
