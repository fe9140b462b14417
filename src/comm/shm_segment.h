// ShmSegment: the memory that the ranks of one host share. Owns one mapping of a memfd.
//
// Layout: a header page (what broke the group, if anything), one control block per rank, one
// staging area per rank, one arena per rank for shared_alloc. A fresh memfd (all zero) is the valid
// initial state, so no rank has to be first; every rank sets the same size. Pages are only backed
// once touched.
//
// Control blocks hold a futex word each: the phase a rank has reached (31 bits, wrapping) and, in
// the top bit, whether the group is broken. Sleeping is counted beside it, so that a rank that runs
// alone makes no system call.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>

#include "base/clock.h"
#include "base/rank_set.h"
#include "base/result.h"
#include "comm/communicator.h"
#include "comm/operation.h"
#include "sys/owned_fd.h"

namespace muster {

class ShmSegment {
 public:
  static constexpr int kMaxWorld = 256;
  static constexpr int kMaxParts = 64;  // of one rank in one reduction: 2 log2(leaves) at most
  static constexpr uint32_t kBrokenBit = 0x8000'0000u;

  // What a rank tells the others about the operation it entered.
  struct Descriptor {
    Fingerprint fingerprint;
    int64_t out_offset;  // -1 = not in the segment
    int64_t in_offset;
    int64_t part_offsets[kMaxParts];
  };
  struct alignas(64) Control {
    std::atomic<uint32_t> phase;
    alignas(64) std::atomic<uint32_t> sleepers;  // waiting for `phase` to change
    std::atomic<int32_t> pid;                    // 0 = not joined
    alignas(64) Descriptor descriptor;
  };

  // A new segment, for ranks that are threads of this process, or to be passed on by its fd().
  static Result<std::shared_ptr<ShmSegment>> create(int world, const GroupOptions& options);
  // Maps a memfd that all ranks were given. Takes the descriptor. Errors: invalid_argument if other
  // ranks mapped it with another world size or other options.
  static Result<std::shared_ptr<ShmSegment>> map(OwnedFd fd, int world,
                                                 const GroupOptions& options);
  ~ShmSegment();
  ShmSegment(const ShmSegment&) = delete;
  ShmSegment& operator=(const ShmSegment&) = delete;

  int fd() const { return fd_.get(); }
  int world() const { return world_; }
  Control& control(int rank);
  std::byte* staging(int rank);
  int64_t staging_bytes() const { return staging_bytes_; }
  std::span<std::byte> arena(int rank);

  // Offset of [data, data + bytes) if it lies wholly in the segment, else -1.
  int64_t offset_of(const void* data, int64_t bytes) const;
  std::byte* at(int64_t offset) { return base_ + offset; }

  // Marks the group as broken and wakes everybody. The first caller's words stay.
  void break_group(const Error& error, const RankSet& missing);
  // What broke it.
  Error failure(RankSet* missing) const;

 private:
  struct Header;
  ShmSegment(OwnedFd fd, std::byte* base, int64_t size, int world, const GroupOptions& options);
  Header& header() const;

  OwnedFd fd_;
  std::byte* base_;
  int64_t size_;
  int world_;
  int64_t staging_bytes_, arena_bytes_;
};

// Waits while `word` holds `seen`, at most `most`. Returns early at will. And its counterpart.
void futex_wait(std::atomic<uint32_t>& word, uint32_t seen, Nanos most);
void futex_wake_all(std::atomic<uint32_t>& word);

}  // namespace muster
