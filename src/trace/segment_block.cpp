#include "trace/segment_block.h"

#include <zstd.h>

#include <cstring>
#include <span>

#include "base/check.h"
#include "base/hash.h"

namespace muster {
namespace {

constexpr std::string_view kMagic = "MSEG";
constexpr uint8_t kPlain = 0, kZstd = 1;

void put_u32(std::string& out, uint32_t value) {
  for (int i = 0; i < 4; ++i) out.push_back(static_cast<char>(value >> (8 * i)));
}
uint32_t u32_at(std::string_view bytes, size_t offset) {
  uint32_t value = 0;
  for (size_t i = 0; i < 4; ++i)
    value |= uint32_t{static_cast<uint8_t>(bytes[offset + i])} << (8 * i);
  return value;
}
uint32_t crc(std::string_view bytes) {
  return crc32c(std::as_bytes(std::span(bytes.data(), bytes.size())));
}

std::optional<std::string> unpack(std::string_view stored, uint8_t codec, uint32_t plain_bytes) {
  if (codec == kPlain) {
    if (stored.size() != plain_bytes) return std::nullopt;
    return std::string(stored);
  }
  std::string plain(plain_bytes, '\0');
  const size_t n = ZSTD_decompress(plain.data(), plain.size(), stored.data(), stored.size());
  if (ZSTD_isError(n) || n != plain_bytes) return std::nullopt;
  return plain;
}

}  // namespace

std::string make_block(BlockKind kind, std::string_view payload) {
  MUSTER_CHECK(payload.size() <= kBlockPayloadLimit, payload.size());
  std::string packed(ZSTD_compressBound(payload.size()), '\0');
  const size_t n = ZSTD_compress(packed.data(), packed.size(), payload.data(), payload.size(), 1);
  const bool compressed = !ZSTD_isError(n) && n < payload.size();
  const std::string_view stored = compressed ? std::string_view(packed.data(), n) : payload;

  std::string out(kMagic);
  out.push_back(static_cast<char>(kind));
  out.push_back(static_cast<char>(compressed ? kZstd : kPlain));
  out.append(2, '\0');
  put_u32(out, static_cast<uint32_t>(stored.size()));
  put_u32(out, static_cast<uint32_t>(payload.size()));
  put_u32(out, crc(stored));
  put_u32(out, crc(out));
  MUSTER_CHECK(out.size() == kBlockHeaderBytes, out.size());
  out += stored;
  return out;
}

std::optional<Block> BlockScanner::take() {
  if (rest_.size() < kBlockHeaderBytes || !rest_.starts_with(kMagic)) return std::nullopt;
  if (crc(rest_.substr(0, kBlockHeaderBytes - 4)) != u32_at(rest_, 20)) return std::nullopt;
  const uint8_t codec = static_cast<uint8_t>(rest_[5]);
  const uint32_t stored = u32_at(rest_, 8), plain = u32_at(rest_, 12);
  if (codec > kZstd || plain > kBlockPayloadLimit || rest_.size() - kBlockHeaderBytes < stored)
    return std::nullopt;
  const std::string_view body = rest_.substr(kBlockHeaderBytes, stored);
  if (crc(body) != u32_at(rest_, 16)) return std::nullopt;
  std::optional<std::string> payload = unpack(body, codec, plain);
  if (!payload.has_value()) return std::nullopt;
  const auto kind = static_cast<BlockKind>(rest_[4]);
  rest_.remove_prefix(kBlockHeaderBytes + stored);
  return Block{kind, *std::move(payload)};
}

std::optional<Block> BlockScanner::next() {
  while (!rest_.empty()) {
    if (std::optional<Block> block = take()) return block;
    const size_t again = rest_.find(kMagic, 1);
    const size_t step = again == std::string_view::npos ? rest_.size() : again;
    skipped_ += step;
    rest_.remove_prefix(step);
  }
  return std::nullopt;
}

}  // namespace muster
