#include "text/bpe_model.h"

#include <algorithm>
#include <cstring>
#include <numeric>

#include <fmt/format.h>

namespace muster {

Result<BpeModel> BpeModel::make(const std::vector<std::optional<std::string>>& tokens,
                                const std::vector<std::pair<uint32_t, uint32_t>>& merges,
                                bool ignore_merges) {
  BpeModel model;
  model.byte_ids_.fill(kNone);
  std::vector<std::pair<std::string_view, uint32_t>> by_bytes;
  for (uint32_t id = 0; id < tokens.size(); ++id) {
    if (!tokens[id]) continue;
    if (tokens[id]->empty())
      return Error(Code::invalid_argument, fmt::format("token {} is empty", id));
    by_bytes.emplace_back(*tokens[id], id);
    if (tokens[id]->size() == 1) model.byte_ids_[static_cast<uint8_t>((*tokens[id])[0])] = id;
  }
  model.has_all_bytes_ =
      std::find(model.byte_ids_.begin(), model.byte_ids_.end(), kNone) == model.byte_ids_.end();

  const TokenTrie ids(std::move(by_bytes));
  model.merges_ = PairTable(merges.size());
  std::string bytes;
  for (uint32_t rank = 0; rank < merges.size(); ++rank) {
    const auto [left, right] = merges[rank];
    MUSTER_CHECK(left < tokens.size() && right < tokens.size(), left, right);
    if (!tokens[left] || !tokens[right]) continue;  // outside the byte alphabet: never in a text
    bytes.assign(*tokens[left]).append(*tokens[right]);
    const uint32_t made = ids.find(bytes);
    if (made == TokenTrie::kNone)
      return Error(
          Code::invalid_argument,
          fmt::format("merge {} ({} + {}) makes a text that is no token", rank, left, right));
    model.merges_.put(left, right, static_cast<uint64_t>(rank) << 32 | made);
  }
  model.find_canonical(tokens);
  model.number_tokens(tokens);
  if (ignore_merges) model.find_whole_only(tokens);
  return model;
}

void BpeModel::find_canonical(const std::vector<std::optional<std::string>>& tokens) {
  MergeScratch scratch;
  std::vector<uint32_t> symbols;
  for (uint32_t id = 0; id < tokens.size(); ++id) {
    if (!tokens[id] || tokens[id]->size() < 2) continue;
    symbols.clear();
    for (const char byte : *tokens[id]) symbols.push_back(byte_ids_[static_cast<uint8_t>(byte)]);
    if (std::find(symbols.begin(), symbols.end(), kNone) != symbols.end()) continue;
    MergedPair last{};
    const size_t count = merge_symbols(merges_, symbols.data(), symbols.size(), scratch, &last);
    if (count == 1 && symbols[0] == id) node_of_.push_back({id, last.left, last.right, last.rank});
  }
  std::sort(node_of_.begin(), node_of_.end(),
            [](const Canonical& a, const Canonical& b) { return a.rank < b.rank; });
  merges_ = PairTable(node_of_.size());
  for (const Canonical& c : node_of_)
    merges_.put(c.left, c.right, static_cast<uint64_t>(c.rank) << 32 | c.id);
}

void BpeModel::find_whole_only(const std::vector<std::optional<std::string>>& tokens) {
  std::vector<bool> canonical(tokens.size(), false);
  for (const Canonical& c : node_of_) canonical[c.id] = true;
  for (const uint32_t id : byte_ids_)
    if (id != kNone) canonical[id] = true;
  std::vector<std::pair<std::string_view, uint32_t>> others;
  for (uint32_t id = 0; id < tokens.size(); ++id)
    if (tokens[id] && !canonical[id]) others.emplace_back(*tokens[id], id);
  whole_only_ = TokenTrie(std::move(others));
}

void BpeModel::number_tokens(const std::vector<std::optional<std::string>>& tokens) {
  walks_ = has_all_bytes_;
  if (!walks_) return;
  std::vector<uint32_t> number(tokens.size(), kNone);
  for (uint32_t byte = 0; byte < 256; ++byte) {
    number[byte_ids_[byte]] = byte;
    id_of_.push_back(byte_ids_[byte]);
  }
  for (const Canonical& c : node_of_) {
    number[c.id] = static_cast<uint32_t>(id_of_.size());
    id_of_.push_back(c.id);
  }
  std::vector<MergePairs::Parts> parts;
  for (uint32_t byte = 0; byte < 256; ++byte) parts.push_back({byte, byte});
  for (const Canonical& c : node_of_) parts.push_back({number[c.left], number[c.right]});
  for (const uint32_t id : id_of_)
    prefixes_.push_back({kNone, static_cast<uint32_t>(tokens[id]->size())});
  // Parts are shorter than what they make, so by length every part is settled before its whole.
  rising_.assign(parts.size(), true);
  std::vector<uint32_t> by_length(parts.size() - 256);
  std::iota(by_length.begin(), by_length.end(), 256u);
  std::stable_sort(by_length.begin(), by_length.end(), [this](uint32_t a, uint32_t b) {
    return prefixes_[a].length < prefixes_[b].length;
  });
  for (const uint32_t t : by_length) {
    const auto [left, right] = parts[t];
    rising_[t] = left < t && right < t && rising_[left] && rising_[right];
  }
  pairs_ = MergePairs(parts, 256);
  std::vector<std::pair<std::string_view, uint32_t>> by_bytes;
  for (uint32_t token = 0; token < id_of_.size(); ++token)
    by_bytes.emplace_back(*tokens[id_of_[token]], token);
  index_ = TokenIndex(by_bytes);
  trie_ = TokenTrie(std::move(by_bytes));
  for (uint32_t token = 256; token < prefixes_.size(); ++token) {
    const std::string& bytes = *tokens[id_of_[token]];
    TokenTrie::Walk along(trie_);
    for (size_t i = 0; i + 1 < bytes.size() && along.step(static_cast<uint8_t>(bytes[i])); ++i)
      if (along.has_value()) prefixes_[token].shorter = along.value();
  }
}

// Would the merges of left + right cross the boundary between them?
bool BpeModel::may_follow(uint32_t left, uint32_t right) const {
  if (!rising_[left] || !rising_[right]) return may_follow_by_merging(left, right);
  // Both trees are taken apart along the boundary, latest merge first, so that the two tokens at
  // hand existed at the same time; a merge of theirs that ranks before the one taken apart last
  // would have been done instead of it. (The leftmost of equal merges wins: `+ 1` where the right
  // tree was taken apart.)
  uint32_t limit = MergePairs::kNone;
  for (;;) {
    if (pairs_.made(left, right) < limit) return false;
    // The later made of the two; a byte cannot be taken apart, and then neither can the other.
    if (left > right) {
      if (left < 256) return true;
      limit = left;
      left = pairs_.parts(left).right;
    } else {
      if (right < 256) return true;
      limit = right + 1;
      right = pairs_.parts(right).left;
    }
  }
}

void BpeModel::append_bytes(uint32_t token, std::vector<uint32_t>& symbols) const {
  std::vector<uint32_t> open{token};
  while (!open.empty()) {
    const uint32_t t = open.back();
    open.pop_back();
    if (t < 256) {
      symbols.push_back(byte_ids_[t]);
      continue;
    }
    open.push_back(pairs_.parts(t).right);
    open.push_back(pairs_.parts(t).left);
  }
}

bool BpeModel::may_follow_by_merging(uint32_t left, uint32_t right) const {
  MergeScratch scratch;
  std::vector<uint32_t> symbols;
  append_bytes(left, symbols);
  append_bytes(right, symbols);
  const size_t count = merge_symbols(merges_, symbols.data(), symbols.size(), scratch, nullptr);
  return count == 2 && symbols[0] == id_of_[left] && symbols[1] == id_of_[right];
}

inline bool BpeModel::may_follow(uint32_t left, uint32_t right, PairMemo& memo) const {
  const uint64_t key = uint64_t{1} << 63 | static_cast<uint64_t>(left) << 32 | uint64_t{right} << 1;
  uint64_t& slot = memo.slots_[key * 0x9E3779B97F4A7C15u >> memo.shift_];
  if ((slot & ~uint64_t{1}) != key) slot = key | static_cast<uint64_t>(may_follow(left, right));
  return (slot & 1) != 0;
}

// The longest canonical token at the start of `text`, of which `left` >= 1 bytes count and 16 more
// can be read.
inline TokenIndex::Match BpeModel::longest(const uint8_t* text, size_t left) const {
  const TokenIndex::Start start = index_.start_of(text, left);
  if (left > ShortKey::kMaxBytes && start.may_be_long()) {
    TokenTrie::Walk along(trie_);
    TokenIndex::Match found{kNone, 0};
    for (uint32_t i = 0; i < left && along.step(text[i]); ++i)
      if (along.has_value()) found = {along.value(), i + 1};
    return found;
  }
  return index_.longest(start, text, left);
}

size_t BpeModel::walk(const uint8_t* text, size_t size, uint32_t* out,
                      PieceScratch& scratch) const {
  uint64_t few[4] = {0, 0, 0, 0};
  uint64_t* blocked = few;
  if (size > 255) {
    scratch.blocked.assign(size / 64 + 1, 0);
    blocked = scratch.blocked.data();
  }
  size_t count = 0, at = 0;
  uint64_t operations = 0;
  TokenIndex::Match next = longest(text, size);
  for (;;) {
    // Here out[0, count) is the encoding of text[0, at), and `next` is to be tried.
    ++operations;
    const size_t end = at + next.length;
    if ((blocked[end >> 6] >> (end & 63) & 1) == 0 &&
        (count == 0 || may_follow(out[count - 1], next.token, scratch.memo))) {
      out[count++] = next.token;
      at = end;
      if (at == size) break;
      next = longest(text + at, size - at);
      continue;
    }
    next.token = prefixes_[next.token].shorter;
    while (next.token == kNone) {
      // Nothing can follow: no boundary here. Some token at 0 always stands.
      MUSTER_CHECK(count > 0, at, size);
      blocked[at >> 6] |= uint64_t{1} << (at & 63);
      next.token = out[--count];
      at -= prefixes_[next.token].length;
      next.token = prefixes_[next.token].shorter;
    }
    next.length = prefixes_[next.token].length;
  }
  scratch.operations += operations;
  for (size_t i = 0; i < count; ++i) out[i] = id_of_[out[i]];
  return count;
}

size_t BpeModel::encode(std::string_view piece, size_t readable, uint32_t* out,
                        PieceScratch& scratch) const {
  if (piece.empty()) return 0;
  if (!walks_) return encode_by_merging(piece, out, scratch.merging);
  if (const uint32_t whole = whole_only_.find(piece); whole != TokenTrie::kNone) {
    out[0] = whole;
    return 1;
  }
  const auto* text = reinterpret_cast<const uint8_t*>(piece.data());
  if (readable < piece.size() + 16) {
    scratch.padded.assign(piece.size() + 16, 0);
    std::memcpy(scratch.padded.data(), text, piece.size());
    text = scratch.padded.data();
  }
  return walk(text, piece.size(), out, scratch);
}

size_t BpeModel::encode_by_merging(std::string_view piece, uint32_t* out,
                                   MergeScratch& scratch) const {
  if (const uint32_t whole = whole_only_.find(piece); whole != TokenTrie::kNone) {
    out[0] = whole;
    return 1;
  }
  size_t count = 0;
  for (const char byte : piece) {
    const uint32_t id = byte_ids_[static_cast<uint8_t>(byte)];
    if (id != kNone) out[count++] = id;
  }
  return merge_symbols(merges_, out, count, scratch, nullptr);
}

}  // namespace muster
