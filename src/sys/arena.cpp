#include "sys/arena.h"

#include <fmt/format.h>
#include <sys/mman.h>

#include <algorithm>
#include <utility>

namespace muster {
namespace {

constexpr size_t kHugePage = size_t{2} << 20;
constexpr size_t kAlignment = 64;

size_t round_up(size_t n, size_t multiple) {
  return (n + multiple - 1) / multiple * multiple;
}

}  // namespace

Result<Arena> Arena::make(size_t bytes, bool prefault) {
  const auto refused = [bytes] {
    return Error(Code::no_space,
                 fmt::format("no memory for an arena of {} bytes; lower the micro-batch or free "
                             "memory on this machine",
                             bytes));
  };
  if (bytes > SIZE_MAX / 4) return refused();
  const size_t capacity = std::max(round_up(bytes, kHugePage), kHugePage);
  // One huge page more, so that the block can start on a huge-page border; the ends are given back.
  const size_t mapped = capacity + kHugePage;
  void* raw = mmap(nullptr, mapped, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (raw == MAP_FAILED) return refused();
  std::byte* start = static_cast<std::byte*>(raw);
  const size_t head =
      round_up(reinterpret_cast<size_t>(start), kHugePage) - reinterpret_cast<size_t>(start);
  if (head > 0) munmap(start, head);
  if (kHugePage - head > 0) munmap(start + head + capacity, kHugePage - head);
  std::byte* base = start + head;
  madvise(base, capacity, MADV_HUGEPAGE);  // advice: without huge pages the arena is only slower
  if (prefault) {
#ifdef MADV_POPULATE_WRITE
    const bool populated = madvise(base, capacity, MADV_POPULATE_WRITE) == 0;
#else
    const bool populated = false;
#endif
    if (!populated) {
      for (size_t at = 0; at < capacity; at += 4096) {
        static_cast<volatile std::byte*>(base)[at] = std::byte{0};
      }
    }
  }
  return Arena(base, capacity);
}

Arena::~Arena() {
  if (base_ != nullptr) munmap(base_, capacity_);
}

Arena::Arena(Arena&& other) noexcept
    : base_(std::exchange(other.base_, nullptr)),
      capacity_(std::exchange(other.capacity_, 0)),
      used_(std::exchange(other.used_, 0)),
      peak_(std::exchange(other.peak_, 0)) {}

Arena& Arena::operator=(Arena&& other) noexcept {
  std::swap(base_, other.base_);
  std::swap(capacity_, other.capacity_);
  std::swap(used_, other.used_);
  std::swap(peak_, other.peak_);
  return *this;
}

void* Arena::take(size_t bytes) {
  MUSTER_CHECK(bytes <= capacity_, bytes, capacity_);
  const size_t size = round_up(bytes, kAlignment);
  MUSTER_CHECK(size <= capacity_ - used_, bytes, used_, capacity_);
  void* taken = base_ + used_;
  used_ += size;
  peak_ = std::max(peak_, used_);
  return taken;
}

void Arena::release_to(size_t mark) {
  MUSTER_CHECK(mark <= used_, mark, used_);
  used_ = mark;
}

}  // namespace muster
