#include "text/tokenizer.h"

#include <algorithm>
#include <tuple>

#include <fmt/format.h>

#include "text/byte_alphabet.h"
#include "text/tokenizer_tables.h"
#include "text/utf8.h"

namespace muster {

namespace {

Error invalid(std::string message) {
  return Error(Code::invalid_argument, std::move(message));
}

Status check_id(uint32_t id, std::string_view text) {
  if (id <= kMaxTokenId) return {};
  return invalid(
      fmt::format("token '{}' has id {}; the largest supported is {}", text, id, kMaxTokenId));
}

// Everything that decides what comes out, in one fixed order.
Hash128 fingerprint_of(const TokenizerParts& parts) {
  Xxh3 hash;
  const auto text = [&hash](std::string_view value) {
    hash.update_u64(value.size());
    hash.update(value);
  };
  text("muster tokenizer 1");
  text(split_pattern_name(parts.pattern));
  hash.update_u64(parts.add_prefix_space);
  hash.update_u64(parts.ignore_merges);
  std::vector<std::pair<uint32_t, std::string_view>> entries;
  for (const auto& entry : parts.vocabulary) entries.emplace_back(entry.id, entry.text);
  std::sort(entries.begin(), entries.end());
  hash.update_u64(entries.size());
  for (const auto& [id, entry] : entries) {
    hash.update_u64(id);
    text(entry);
  }
  hash.update_u64(parts.merges.size());
  for (const auto& [left, right] : parts.merges)
    hash.update_u64(static_cast<uint64_t>(left) << 32 | right);
  std::vector<AddedToken> added = parts.added;
  std::sort(added.begin(), added.end(),
            [](const AddedToken& a, const AddedToken& b) { return a.id < b.id; });
  hash.update_u64(added.size());
  for (const AddedToken& token : added) {
    hash.update_u64(token.id);
    text(token.content);
    hash.update_u64(static_cast<uint64_t>(token.special) | uint64_t{token.single_word} << 1 |
                    uint64_t{token.lstrip} << 2 | uint64_t{token.rstrip} << 3 |
                    uint64_t{token.normalized} << 4);
  }
  return hash.digest();
}

}  // namespace

Result<Tokenizer> Tokenizer::make(TokenizerParts parts) {
  auto tables = std::make_shared<Tables>();
  std::vector<std::optional<std::string>> model_bytes;
  std::vector<bool> taken;
  const auto make_room = [&](uint32_t id) {
    if (id < taken.size()) return;
    taken.resize(id + size_t{1});
    tables->bytes.resize(id + size_t{1});
    tables->special.resize(id + size_t{1});
  };
  std::unordered_map<std::string_view, uint32_t> model_ids;
  for (const auto& entry : parts.vocabulary) {
    MUSTER_TRY(check_id(entry.id, entry.text));
    if (entry.text.empty()) return invalid(fmt::format("token {} has an empty text", entry.id));
    make_room(entry.id);
    if (taken[entry.id])
      return invalid(
          fmt::format("id {} belongs to '{}' and to another token", entry.id, entry.text));
    if (!model_ids.emplace(entry.text, entry.id).second)
      return invalid(fmt::format("token '{}' is in the vocabulary twice", entry.text));
    taken[entry.id] = true;
    model_bytes.resize(taken.size());
    model_bytes[entry.id] = from_alphabet(entry.text);
    // As in the reference, a token outside the byte alphabet decodes to its own text.
    tables->bytes[entry.id] = model_bytes[entry.id] ? *model_bytes[entry.id] : entry.text;
  }
  for (const AddedToken& token : parts.added) {
    MUSTER_TRY(check_id(token.id, token.content));
    if (token.content.empty()) return invalid(fmt::format("added token {} is empty", token.id));
    if (valid_utf8_prefix(token.content) != token.content.size())
      return invalid(fmt::format("added token {} is not valid UTF-8", token.id));
    const auto in_model = model_ids.find(token.content);
    if (in_model != model_ids.end() && in_model->second != token.id)
      return invalid(fmt::format("added token '{}' has id {}, but the vocabulary gives it {}",
                                 token.content, token.id, in_model->second));
    make_room(token.id);
    if (taken[token.id] && in_model == model_ids.end())
      return invalid(fmt::format("id {} of added token '{}' belongs to another token", token.id,
                                 token.content));
    taken[token.id] = true;
    tables->bytes[token.id] = token.content;
    tables->special[token.id] = token.special;
    if (!tables->added_ids.emplace(token.content, token.id).second)
      return invalid(fmt::format("added token '{}' is there twice", token.content));
  }
  size_t total = 0;
  for (const auto& bytes : tables->bytes) total += bytes ? bytes->size() : 0;
  if (total > kMaxTokenBytes)
    return invalid(fmt::format("the tokens have {} bytes together; at most {} are supported", total,
                               kMaxTokenBytes));
  model_bytes.resize(taken.size());
  for (const auto& [left, right] : parts.merges)
    for (const uint32_t id : {left, right})
      if (id >= taken.size() || !taken[id])
        return invalid(fmt::format("merge {} + {}: no token has id {}", left, right, id));
  MUSTER_TRY(tables->model, BpeModel::make(model_bytes, parts.merges, parts.ignore_merges));
  tables->added = AddedTokens(parts.added);
  tables->fingerprint = fingerprint_of(parts);
  tables->parts = std::move(parts);
  return Tokenizer(std::move(tables));
}

Result<Tokenizer> Tokenizer::bytes(const std::vector<std::string>& specials) {
  TokenizerParts parts;
  uint32_t id = 0;
  for (const std::string& content : specials) {
    parts.added.push_back({.content = content, .id = id, .special = true});
    parts.vocabulary.push_back({content, id++});
  }
  for (int byte = 0; byte < 256; ++byte)
    parts.vocabulary.push_back({to_alphabet(std::string(1, static_cast<char>(byte))), id++});
  return make(std::move(parts));
}

Result<std::vector<uint32_t>> Tokenizer::with_special_tokens(std::vector<uint32_t> ids) const {
  const TokenizerParts& parts = tables_->parts;
  if (!parts.prefix || !parts.suffix)
    return Error(
        Code::unsupported,
        "this tokenizer's post-processor is of a kind that is not supported; encode without it");
  ids.insert(ids.begin(), parts.prefix->begin(), parts.prefix->end());
  ids.insert(ids.end(), parts.suffix->begin(), parts.suffix->end());
  return ids;
}

std::optional<std::string_view> Tokenizer::token_bytes(uint32_t id) const {
  if (id >= tables_->bytes.size() || !tables_->bytes[id]) return std::nullopt;
  return *tables_->bytes[id];
}

Result<std::string> Tokenizer::decode_bytes(std::span<const uint32_t> ids,
                                            bool skip_special) const {
  std::string out;
  for (const uint32_t id : ids) {
    const auto bytes = token_bytes(id);
    if (!bytes)
      return invalid(
          fmt::format("no token has id {}; the vocabulary ends before {}", id, vocabulary_size()));
    if (skip_special && tables_->special[id]) continue;
    out.append(*bytes);
  }
  return out;
}

Result<std::string> Tokenizer::decode(std::span<const uint32_t> ids, bool skip_special) const {
  MUSTER_TRY(std::string bytes, decode_bytes(ids, skip_special));
  size_t replaced = 0;
  if (valid_utf8_prefix(bytes) == bytes.size()) return bytes;
  return replace_invalid_utf8(bytes, replaced);
}

uint32_t Tokenizer::vocabulary_size() const {
  return static_cast<uint32_t>(tables_->bytes.size());
}

std::optional<uint32_t> Tokenizer::special_id(std::string_view content) const {
  const auto found = tables_->added_ids.find(std::string(content));
  if (found == tables_->added_ids.end()) return std::nullopt;
  return found->second;
}

Hash128 Tokenizer::fingerprint() const {
  return tables_->fingerprint;
}

const TokenizerParts& Tokenizer::parts() const {
  return tables_->parts;
}

Result<std::string> StreamDecoder::next(uint32_t id) {
  MUSTER_TRY(const std::string bytes, tokenizer_.decode_bytes(std::span(&id, 1), skip_special_));
  pending_ += bytes;
  const size_t ready = pending_.size() - incomplete_utf8_suffix(pending_);
  size_t replaced = 0;
  std::string text = replace_invalid_utf8(std::string_view(pending_).substr(0, ready), replaced);
  pending_.erase(0, ready);
  return text;
}

std::string StreamDecoder::finish() {
  size_t replaced = 0;
  const std::string text = replace_invalid_utf8(pending_, replaced);
  pending_.clear();
  return text;
}

}  // namespace muster
