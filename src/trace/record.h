// The 32-byte record of a ring, as it lies in shared memory. Little-endian, part of the layout.
//
//   off  field
//    0   u64 t      ticks (ticks.h)
//    8   u32 v      complete: duration >> shift; begin: serial; end: serial of its begin
//   12   u16 name   id in the region's name table; 0 = the table was full
//   14   u8  kind in the low 4 bits, shift in the high 4
//   15   u8  flags
//   16   u64 a, 24 u64 b   meaning by name (vocabulary.h); counter: a is the value, step: a is the
//   step
#pragma once

#include <bit>
#include <cstdint>

namespace muster {

enum class RecordKind : uint8_t {
  instant = 1,
  begin = 2,
  end = 3,
  complete = 4,
  counter = 5,
  step = 6,
};

// Tiers tell what a record is worth: 0 counters and 1 phases, collectives, data and checkpoint
// spans are always on; 2 kernels are sampled; 3 stacks on demand.
inline constexpr uint8_t kTierMask = 0x3;
inline constexpr uint8_t kFlagDeviceClock = 0x4;
inline constexpr uint8_t kFlagNested = 0x8;
inline constexpr uint8_t kFlagReal = 0x10;  // counter: a holds the bits of a double, else an int64

struct Record {
  uint64_t t = 0;
  uint32_t v = 0;
  uint16_t name = 0;
  uint8_t kind_shift = 0;
  uint8_t flags = 0;
  uint64_t a = 0, b = 0;

  RecordKind kind() const { return static_cast<RecordKind>(kind_shift & 0xF); }
  uint64_t duration_ticks() const { return uint64_t{v} << (kind_shift >> 4); }
  bool operator==(const Record&) const = default;
};
static_assert(sizeof(Record) == 32);
static_assert(std::endian::native == std::endian::little, "the shared layout is little-endian");

// The second word of a record: v, name, kind, shift and flags as one 8-byte store.
constexpr uint64_t pack_word(uint32_t v, uint16_t name, RecordKind kind, uint32_t shift,
                             uint8_t flags) {
  return uint64_t{v} | uint64_t{name} << 32 |
         uint64_t{static_cast<uint8_t>(kind) | (shift & 0xF) << 4} << 48 | uint64_t{flags} << 56;
}

// A duration keeps its top 32 bits: error below 2^-31 of itself; 2^47 ticks (half a day) and more
// are cut to that.
constexpr uint32_t duration_shift(uint64_t ticks) {
  const uint32_t bits = static_cast<uint32_t>(std::bit_width(ticks));
  return bits <= 32 ? 0 : bits - 32 < 15 ? bits - 32 : 15;
}
constexpr uint32_t duration_value(uint64_t ticks, uint32_t shift) {
  const uint64_t v = ticks >> shift;
  return v > UINT32_MAX ? UINT32_MAX : static_cast<uint32_t>(v);
}

}  // namespace muster
