// The encoder: cuts a segment into pieces a batch at a time, looks the short ones up in the cache,
// and asks the model for the rest.
#include <fmt/format.h>

#include <cstring>

#include "base/check.h"
#include "text/cpu_level.h"
#include "text/piece_cache.h"
#include "text/tokenizer.h"
#include "text/tokenizer_tables.h"
#include "text/utf8.h"

namespace muster {

namespace {

// Pieces cut, hashed and prefetched before the first is looked up.
constexpr size_t kBatch = 256;
// Ids gathered before they go to the caller's vector. A long piece gets room of its own.
constexpr size_t kIdRoom = 4096;
// For volume: a cache of 2 MiB, a memo of 256 KiB. For one short text: 16 KiB and 2 KiB.
struct Sizes {
  int cache_lines_log2, memo_slots_log2;
};
constexpr Sizes kVolume = {15, 15};
constexpr Sizes kShort = {8, 8};
constexpr size_t kShortText = 4096;

}  // namespace

struct Encoder::State {
  State(Tokenizer t, Sizes sizes)
      : tokenizer(std::move(t)), cache(sizes.cache_lines_log2), scratch(sizes.memo_slots_log2) {}

  const Tokenizer tokenizer;
  const CpuLevel level = best_cpu_level();
  PieceCache cache;
  PieceScratch scratch;
  size_t replaced = 0;
  size_t ends[kBatch];
  ShortKey keys[kBatch];
  PieceCache::Line* lines[kBatch];
  uint32_t ids[kIdRoom + PieceCache::kMaxIds];
  std::vector<uint32_t> long_ids;

  void encode_segment(std::string_view text, std::vector<uint32_t>& out);
  void encode_part(std::string_view part, std::vector<uint32_t>& out);
};

void Encoder::State::encode_part(std::string_view part, std::vector<uint32_t>& out) {
  if (!tokenizer.tables_->parts.add_prefix_space || part.starts_with(' '))
    return encode_segment(part, out);
  std::string spaced(1, ' ');
  spaced.append(part);
  encode_segment(spaced, out);
}

void Encoder::State::encode_segment(std::string_view text, std::vector<uint32_t>& out) {
  const BpeModel& model = tokenizer.tables_->model;
  const SplitPattern pattern = tokenizer.tables_->parts.pattern;
  const auto* bytes = reinterpret_cast<const uint8_t*>(text.data());
  const size_t size = text.size();
  size_t at = 0, used = 0;
  while (at < size) {
    const size_t count = next_pieces(pattern, text, at, ends, kBatch, level);
    size_t begin = at;
    for (size_t i = 0; i < count; ++i) {
      const size_t length = ends[i] - begin;
      if (length <= ShortKey::kMaxBytes) {
        if (begin + 16 <= size) [[likely]] {
          keys[i] = ShortKey::of(bytes + begin, length);
        } else {
          uint8_t padded[16] = {};
          std::memcpy(padded, bytes + begin, length);
          keys[i] = ShortKey::of(padded, length);
        }
        lines[i] = cache.line_of(keys[i]);
        __builtin_prefetch(lines[i]);
      }
      begin = ends[i];
    }
    begin = at;
    for (size_t i = 0; i < count; ++i) {
      const size_t length = ends[i] - begin;
      if (used + ShortKey::kMaxBytes > kIdRoom) {
        out.insert(out.end(), ids, ids + used);
        used = 0;
      }
      if (length <= ShortKey::kMaxBytes) {
        if (const auto* entry = PieceCache::find(lines[i], keys[i]); entry != nullptr) [[likely]] {
          std::memcpy(ids + used, entry->ids, sizeof entry->ids);
          ids[used] &= PieceCache::kIdMask;
          used += entry->ids[0] >> 24;
        } else {
          const size_t n =
              model.encode(text.substr(begin, length), size - begin, ids + used, scratch);
          if (n >= 1 && n <= PieceCache::kMaxIds)
            PieceCache::insert(lines[i], keys[i], ids + used, n);
          used += n;
        }
      } else if (length <= kIdRoom - used) {
        used += model.encode(text.substr(begin, length), size - begin, ids + used, scratch);
      } else {
        out.insert(out.end(), ids, ids + used);
        used = 0;
        long_ids.resize(length);
        const size_t n =
            model.encode(text.substr(begin, length), size - begin, long_ids.data(), scratch);
        out.insert(out.end(), long_ids.begin(), long_ids.begin() + static_cast<ptrdiff_t>(n));
      }
      begin = ends[i];
    }
    at = begin;
  }
  out.insert(out.end(), ids, ids + used);
}

Status check_text_size(std::string_view text) {
  if (text.size() <= kMaxTextBytes / 3) return {};
  const bool larger = text.size() > kMaxTextBytes;
  if (!larger && valid_utf8_prefix(text) == text.size()) return {};
  return Error(Code::invalid_argument,
               fmt::format("the text has {} bytes{}; split it into parts of at most {}",
                           text.size(), larger ? "" : ", not all of them UTF-8",
                           larger ? kMaxTextBytes : kMaxTextBytes / 3));
}

Encoder::Encoder(const Tokenizer& tokenizer)
    : state_(std::make_unique<State>(tokenizer, kVolume)) {}
Encoder::Encoder(std::unique_ptr<State> state) : state_(std::move(state)) {}
Encoder::~Encoder() = default;
Encoder::Encoder(Encoder&&) noexcept = default;

void Encoder::encode(std::string_view text, std::vector<uint32_t>& out, SpecialText special) {
  MUSTER_CHECK(text.size() <= kMaxTextBytes, text.size());
  std::string repaired;
  if (valid_utf8_prefix(text) != text.size()) {
    repaired = replace_invalid_utf8(text, state_->replaced);
    text = repaired;
  }
  state_->tokenizer.tables_->added.cut(
      text, special, [&](std::string_view part) { state_->encode_part(part, out); },
      [&](uint32_t id) { out.push_back(id); });
}

std::vector<uint32_t> Tokenizer::encode(std::string_view text, SpecialText special) const {
  std::vector<uint32_t> ids;
  Encoder encoder(
      std::make_unique<Encoder::State>(*this, text.size() <= kShortText ? kShort : kVolume));
  encoder.encode(text, ids, special);
  return ids;
}

Result<EncodedText> encode_text(const Tokenizer& tokenizer, std::string_view text,
                                SpecialText special) {
  if (text.size() > kMaxTextBytes) {
    return Error(Code::invalid_argument,
                 fmt::format("the text has {} bytes; split it into parts of at most {}",
                             text.size(), kMaxTextBytes));
  }
  EncodedText encoded;
  Encoder encoder(tokenizer);
  encoder.encode(text, encoded.ids, special);
  encoded.replaced = encoder.replaced();
  return encoded;
}

size_t Encoder::replaced() const {
  return state_->replaced;
}

uint64_t Encoder::operations() const {
  return state_->scratch.operations + state_->scratch.merging.operations;
}

}  // namespace muster
