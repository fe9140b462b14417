// Snapshot: copies a shard's bytes, in file order, into buffers given one after the other, and
// takes CRC32C per checksum chunk and XXH3-128 per box. Two ways, mixed freely:
//  - fill() does both in one pass over blocks that fit the cache, so that memory is read once;
//  - copy() only copies, while somebody waits for the state to be his again, and account() looks at
//    the copy later.
//
// One thread. The plan and the memory it points to must outlive it and stay constant until copied.
#pragma once

#include <span>

#include "ckpt/shard_plan.h"

namespace muster {

class Snapshot {
 public:
  explicit Snapshot(const ShardPlan& plan);

  bool copied() const { return copy_.position == plan_.size; }
  // The next bytes of the file; at the end of the file the rest of `out` becomes zeros. Returns the
  // bytes of the file copied. fill() needs every earlier copy() accounted for.
  size_t fill(std::span<std::byte> out);
  size_t copy(std::span<std::byte> out);
  // `bytes`: what copy() put out next.
  void account(std::span<const std::byte> bytes);
  // Call when all is copied and accounted for.
  ShardReport finish();

 private:
  // A place in the file, and the source it lies in (or the next one, inside the header).
  struct Cursor {
    int64_t position = 0;
    size_t source = 0;
  };
  // The longest run from `cursor` inside one source and one checksum chunk.
  std::span<const std::byte> run_at(const Cursor& cursor, size_t room) const;
  void advance(Cursor& cursor, size_t length) const;
  void account_run(std::span<const std::byte> bytes);

  const ShardPlan& plan_;
  ShardReport report_;
  Cursor copy_, account_;
  uint32_t crc_ = 0;  // of the chunk so far
  Xxh3 hash_;         // of the box so far
};

// As memcpy; large copies bypass the cache on the way out where the CPU can, because nobody reads
// the copy soon.
void copy_to_memory(std::byte* to, const std::byte* from, size_t length);

}  // namespace muster
