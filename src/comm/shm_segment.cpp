#include "comm/shm_segment.h"

#include <fmt/format.h>
#include <linux/futex.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstring>
#include <ctime>

#include "base/hash.h"

namespace muster {
namespace {

constexpr int64_t kPage = 4096;
constexpr uint64_t kLayoutVersion = 1;

int64_t page_round(int64_t bytes) {
  return (bytes + kPage - 1) / kPage * kPage;
}

int64_t control_bytes(int world) {
  return page_round(static_cast<int64_t>(sizeof(ShmSegment::Control)) * world);
}

// Never 0, which means "not set yet".
uint64_t layout_hash(int world, int64_t staging, int64_t arena) {
  const uint64_t words[] = {kLayoutVersion, static_cast<uint64_t>(world),
                            static_cast<uint64_t>(staging), static_cast<uint64_t>(arena),
                            sizeof(ShmSegment::Control)};
  return xxh3_64({reinterpret_cast<const char*>(words), sizeof words}) | 1;
}

}  // namespace

struct ShmSegment::Header {
  std::atomic<uint64_t> layout;
  std::atomic<uint32_t> broken;  // 0 no, 1 being written, 2 readable
  uint32_t code;
  uint64_t missing[kMaxWorld / 64];
  char text[512];
};

static_assert(std::atomic<uint32_t>::is_always_lock_free, "futex words are shared by processes");

Result<std::shared_ptr<ShmSegment>> ShmSegment::create(int world, const GroupOptions& options) {
  OwnedFd fd(::memfd_create("muster-comm", MFD_CLOEXEC));
  if (!fd.valid()) return errno_error(errno, "memfd_create");
  return map(std::move(fd), world, options);
}

Result<std::shared_ptr<ShmSegment>> ShmSegment::map(OwnedFd fd, int world,
                                                    const GroupOptions& options) {
  if (world < 1 || world > kMaxWorld)
    return Error(Code::unsupported,
                 fmt::format("{} ranks in shared memory; 1 to {} are possible", world, kMaxWorld));
  const int64_t staging = page_round(std::max<int64_t>(options.staging_bytes, 64 << 10));
  const int64_t arena = page_round(options.shared_bytes);
  const int64_t size = kPage + control_bytes(world) + world * (staging + arena);
  if (::ftruncate(fd.get(), size) != 0) return errno_error(errno, "size the shared segment");
  void* base =
      ::mmap(nullptr, static_cast<size_t>(size), PROT_READ | PROT_WRITE, MAP_SHARED, fd.get(), 0);
  if (base == MAP_FAILED)
    return errno_error(errno, fmt::format("map {} bytes of shared memory", size));
  std::shared_ptr<ShmSegment> segment(
      new ShmSegment(std::move(fd), static_cast<std::byte*>(base), size, world, options));
  segment->staging_bytes_ = staging;
  segment->arena_bytes_ = arena;
  uint64_t seen = 0;
  const uint64_t mine = layout_hash(world, staging, arena);
  if (!segment->header().layout.compare_exchange_strong(seen, mine) && seen != mine)
    return Error(Code::invalid_argument,
                 "another rank mapped the shared segment with another world size or other options; "
                 "all ranks need the same");
  return segment;
}

ShmSegment::ShmSegment(OwnedFd fd, std::byte* base, int64_t size, int world,
                       const GroupOptions& options)
    : fd_(std::move(fd)),
      base_(base),
      size_(size),
      world_(world),
      staging_bytes_(options.staging_bytes),
      arena_bytes_(options.shared_bytes) {}

ShmSegment::~ShmSegment() {
  ::munmap(base_, static_cast<size_t>(size_));
}

ShmSegment::Header& ShmSegment::header() const {
  static_assert(sizeof(Header) <= kPage);
  return *reinterpret_cast<Header*>(base_);
}

ShmSegment::Control& ShmSegment::control(int rank) {
  return reinterpret_cast<Control*>(base_ + kPage)[rank];
}

std::byte* ShmSegment::staging(int rank) {
  return base_ + kPage + control_bytes(world_) + rank * staging_bytes_;
}

std::span<std::byte> ShmSegment::arena(int rank) {
  return {base_ + kPage + control_bytes(world_) + world_ * staging_bytes_ + rank * arena_bytes_,
          static_cast<size_t>(arena_bytes_)};
}

int64_t ShmSegment::offset_of(const void* data, int64_t bytes) const {
  const auto* p = static_cast<const std::byte*>(data);
  if (std::less<>()(p, base_) || p - base_ > size_ - bytes) return -1;
  return p - base_;
}

void ShmSegment::break_group(const Error& error, const RankSet& missing) {
  Header& h = header();
  uint32_t whole = 0;
  if (h.broken.compare_exchange_strong(whole, 1)) {
    h.code = static_cast<uint32_t>(error.code());
    for (const int32_t rank : missing.ranks())
      if (rank < kMaxWorld) h.missing[rank / 64] |= uint64_t{1} << (rank % 64);
    std::strncpy(h.text, error.to_string().c_str(), sizeof h.text - 1);
    h.broken.store(2);
  }
  for (int r = 0; r < world_; ++r) {
    control(r).phase.fetch_or(kBrokenBit);
    futex_wake_all(control(r).phase);
  }
}

Error ShmSegment::failure(RankSet* missing) const {
  const Header& h = header();
  // Whoever writes it may die half-way; its words are then not worth waiting for.
  for (int i = 0; i < 1000 && h.broken.load() != 2; ++i) ::sched_yield();
  if (h.broken.load() != 2)
    return Error(Code::peer_lost, "the group was ended by a rank that died");
  for (int32_t rank = 0; rank < world_; ++rank)
    if (h.missing[rank / 64] >> (rank % 64) & 1) missing->insert(Rank{rank});
  return Error(static_cast<Code>(h.code), h.text);
}

void futex_wait(std::atomic<uint32_t>& word, uint32_t seen, Nanos most) {
  const timespec timeout{static_cast<time_t>(most.count() / 1'000'000'000),
                         static_cast<long>(most.count() % 1'000'000'000)};
  ::syscall(SYS_futex, reinterpret_cast<uint32_t*>(&word), FUTEX_WAIT, seen, &timeout, nullptr, 0);
}

void futex_wake_all(std::atomic<uint32_t>& word) {
  ::syscall(SYS_futex, reinterpret_cast<uint32_t*>(&word), FUTEX_WAKE, INT_MAX, nullptr, nullptr,
            0);
}

}  // namespace muster
