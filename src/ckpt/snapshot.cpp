#include "ckpt/snapshot.h"

#include <algorithm>
#include <cstring>

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

#include "base/check.h"

namespace muster {
namespace {
// Half of a small L2 cache, so that the second and third look at a block hit it.
constexpr size_t kBlock = 64 * 1024;
}  // namespace

void copy_to_memory(std::byte* to, const std::byte* from, size_t length) {
#if defined(__SSE2__)
  if (length < 4096) {
    std::memcpy(to, from, length);
    return;
  }
  const size_t head = (64 - reinterpret_cast<uintptr_t>(to) % 64) % 64;
  std::memcpy(to, from, head);
  const size_t lines = (length - head) / 64;
  const auto* source = reinterpret_cast<const __m128i*>(from + head);
  auto* target = reinterpret_cast<__m128i*>(to + head);
  for (size_t i = 0; i < lines; ++i, source += 4, target += 4) {
    const __m128i a = _mm_loadu_si128(source), b = _mm_loadu_si128(source + 1);
    const __m128i c = _mm_loadu_si128(source + 2), d = _mm_loadu_si128(source + 3);
    _mm_stream_si128(target, a);
    _mm_stream_si128(target + 1, b);
    _mm_stream_si128(target + 2, c);
    _mm_stream_si128(target + 3, d);
  }
  const size_t done = head + lines * 64;
  std::memcpy(to + done, from + done, length - done);
  _mm_sfence();  // before anybody is told that the copy is there
#else
  std::memcpy(to, from, length);
#endif
}

Snapshot::Snapshot(const ShardPlan& plan) : plan_(plan), report_(plan.report) {
  for (const ShardPlan::Source& source : plan_.sources)  // empty boxes are never walked over
    if (source.begin == source.end)
      report_.tensors[source.tensor].boxes[source.box].xxh3 = Xxh3().digest();
  advance(copy_, 0);
  advance(account_, 0);
}

std::span<const std::byte> Snapshot::run_at(const Cursor& cursor, size_t room) const {
  const auto header = static_cast<int64_t>(plan_.start.size());
  const bool in_header = cursor.position < header;
  const ShardPlan::Source* source = in_header ? nullptr : &plan_.sources[cursor.source];
  const std::byte* data =
      in_header ? reinterpret_cast<const std::byte*>(plan_.start.data()) + cursor.position
                : source->data + (cursor.position - source->begin);
  const int64_t length = std::min({(in_header ? header : source->end) - cursor.position,
                                   kChecksumChunk - cursor.position % kChecksumChunk,
                                   static_cast<int64_t>(std::min(room, kBlock))});
  return {data, static_cast<size_t>(length)};
}

void Snapshot::advance(Cursor& cursor, size_t length) const {
  cursor.position += static_cast<int64_t>(length);
  while (cursor.source < plan_.sources.size() &&
         plan_.sources[cursor.source].end <= cursor.position)
    ++cursor.source;
}

void Snapshot::account_run(std::span<const std::byte> bytes) {
  const size_t source = account_.source;
  if (account_.position >= static_cast<int64_t>(plan_.start.size())) hash_.update(bytes);
  crc_ = crc32c(bytes, crc_);
  advance(account_, bytes.size());
  if (account_.position % kChecksumChunk == 0 || account_.position == plan_.size) {
    report_.file.crc32c.push_back(crc_);
    crc_ = 0;
  }
  if (account_.source == source || account_.position <= static_cast<int64_t>(plan_.start.size()))
    return;
  const ShardPlan::Source& ended = plan_.sources[source];
  report_.tensors[ended.tensor].boxes[ended.box].xxh3 = hash_.digest();
  hash_ = Xxh3();
}

size_t Snapshot::fill(std::span<std::byte> out) {
  MUSTER_CHECK(copy_.position == account_.position, copy_.position, account_.position);
  size_t done = 0;
  while (done < out.size() && !copied()) {
    const auto run = run_at(copy_, out.size() - done);
    // Hash first: that brings the block into the cache, from where it is copied.
    account_run(run);
    copy_to_memory(out.data() + done, run.data(), run.size());
    advance(copy_, run.size());
    done += run.size();
  }
  std::fill(out.begin() + static_cast<std::ptrdiff_t>(done), out.end(), std::byte{0});
  return done;
}

size_t Snapshot::copy(std::span<std::byte> out) {
  size_t done = 0;
  while (done < out.size() && !copied()) {
    const auto run = run_at(copy_, out.size() - done);
    copy_to_memory(out.data() + done, run.data(), run.size());
    advance(copy_, run.size());
    done += run.size();
  }
  std::fill(out.begin() + static_cast<std::ptrdiff_t>(done), out.end(), std::byte{0});
  return done;
}

void Snapshot::account(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const auto run = run_at(account_, bytes.size());
    account_run(bytes.first(run.size()));
    bytes = bytes.subspan(run.size());
  }
}

ShardReport Snapshot::finish() {
  MUSTER_CHECK(account_.position == plan_.size && copied(), account_.position, plan_.size);
  return std::move(report_);
}

}  // namespace muster
