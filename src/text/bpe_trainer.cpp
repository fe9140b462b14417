#include "text/bpe_trainer.h"

#include <algorithm>
#include <queue>
#include <set>
#include <unordered_map>

#include <fmt/format.h>

#include "text/byte_alphabet.h"
#include "text/utf8.h"
#include "text/word_counts.h"

namespace muster {

namespace {

using Pair = std::pair<uint32_t, uint32_t>;

struct PairHash {
  size_t operator()(const Pair& pair) const {
    return (static_cast<uint64_t>(pair.first) << 32 | pair.second) * 0x9E3779B97F4A7C15u >> 16;
  }
};

// A pair waiting to be merged, with the words that may hold it. `count` may be out of date.
struct Waiting {
  int64_t count;
  Pair pair;
  size_t words;  // index into Merger::word_lists_
  bool operator<(const Waiting& other) const {
    if (count != other.count) return count < other.count;
    return pair > other.pair;
  }
};

class Merger {
 public:
  Merger(const std::vector<WordCount>& words, const std::vector<uint32_t>& byte_ids) {
    for (const WordCount& word : words) {
      words_.push_back({symbols_.size(), word.word.size(), static_cast<int64_t>(word.count)});
      for (const char byte : word.word) symbols_.push_back(byte_ids[static_cast<uint8_t>(byte)]);
    }
    for (uint32_t w = 0; w < words_.size(); ++w)
      for (size_t i = 0; i + 1 < words_[w].length; ++i) {
        const uint32_t* symbols = symbols_.data() + words_[w].begin + i;
        change({symbols[0], symbols[1]}, words_[w].count, w);
      }
    queue_changed();
  }

  // The most frequent pair; false when none is left. The caller then merges or skips it.
  bool next(Pair& pair) {
    while (!queue_.empty()) {
      top_ = queue_.top();
      queue_.pop();
      const int64_t count = counts_.at(top_.pair);
      if (top_.count != count) {
        top_.count = count;
        queue_.push(top_);
        continue;
      }
      if (count < 1) return false;
      pair = top_.pair;
      return true;
    }
    return false;
  }

  // Merges the pair that next() gave into `made` in every word.
  void merge(uint32_t made) {
    const std::vector<uint32_t> words = std::move(word_lists_[top_.words]);
    for (const uint32_t w : words) merge_in(w, made);
    queue_changed();
  }

 private:
  struct Word {
    size_t begin, length;
    int64_t count;
  };

  void change(Pair pair, int64_t count, uint32_t word) {
    counts_[pair] += count;
    if (count <= 0) return;
    auto [found, is_new] = changed_.try_emplace(pair, word_lists_.size());
    if (is_new) word_lists_.emplace_back();
    std::vector<uint32_t>& list = word_lists_[found->second];
    if (list.empty() || list.back() != word) list.push_back(word);
  }

  void queue_changed() {
    for (const auto& [pair, list] : changed_)
      if (const int64_t count = counts_.at(pair); count > 0) queue_.push({count, pair, list});
    changed_.clear();
  }

  void merge_in(uint32_t w, uint32_t made) {
    Word& word = words_[w];
    uint32_t* symbols = symbols_.data() + word.begin;
    const auto [left, right] = top_.pair;
    size_t kept = 0;
    for (size_t i = 0; i < word.length; ++i) {
      if (i + 1 == word.length || symbols[i] != left || symbols[i + 1] != right) {
        symbols[kept++] = symbols[i];
        continue;
      }
      if (kept > 0) {
        change({symbols[kept - 1], left}, -word.count, w);
        change({symbols[kept - 1], made}, word.count, w);
      }
      if (i + 2 < word.length) {
        change({right, symbols[i + 2]}, -word.count, w);
        change({made, symbols[i + 2]}, word.count, w);
      }
      symbols[kept++] = made;
      ++i;
    }
    word.length = kept;
  }

  std::vector<uint32_t> symbols_;
  std::vector<Word> words_;
  std::unordered_map<Pair, int64_t, PairHash> counts_;
  std::unordered_map<Pair, size_t, PairHash> changed_;
  std::vector<std::vector<uint32_t>> word_lists_;
  std::priority_queue<Waiting> queue_;
  Waiting top_{};
};

Status check(std::span<const std::string_view> texts, const BpeTraining& options) {
  const auto wrong = [](std::string message) {
    return Error(Code::invalid_argument, std::move(message));
  };
  MUSTER_CHECK(options.threads >= 1, options.threads);
  std::set<std::string_view> seen;
  for (const std::string& special : options.specials) {
    if (special.empty() || valid_utf8_prefix(special) != special.size())
      return wrong("a special token is empty or not UTF-8");
    if (!seen.insert(special).second)
      return wrong(fmt::format("special token '{}' is given twice", special));
  }
  const size_t least = options.specials.size() + 256;
  if (options.vocabulary_size < least || options.vocabulary_size > kMaxTokenId)
    return wrong(
        fmt::format("vocabulary size {} is not between {} ({} special tokens and 256 bytes) and {}",
                    options.vocabulary_size, least, options.specials.size(), kMaxTokenId));
  if (std::all_of(texts.begin(), texts.end(), [](std::string_view t) { return t.empty(); }))
    return wrong("no text to train a tokenizer on");
  return {};
}

}  // namespace

std::vector<std::string> code_specials() {
  return {"<|endoftext|>", "<fim_prefix>", "<fim_middle>", "<fim_suffix>", "<fim_pad>"};
}

Result<Tokenizer> train_bpe(std::span<const std::string_view> texts, const BpeTraining& options) {
  MUSTER_TRY(check(texts, options));
  TokenizerParts parts;
  parts.pattern = options.pattern;
  std::vector<std::string> shown;  // id -> text in the byte alphabet
  std::unordered_map<std::string, uint32_t> ids;
  const auto add = [&](std::string text) {
    const auto id = static_cast<uint32_t>(shown.size());
    ids.emplace(text, id);
    parts.vocabulary.push_back({text, id});
    shown.push_back(std::move(text));
    return id;
  };
  for (const std::string& special : options.specials)
    parts.added.push_back({.content = special, .id = add(special), .special = true});
  std::vector<std::pair<uint32_t, uint8_t>> alphabet;
  for (int byte = 0; byte < 256; ++byte)
    alphabet.emplace_back(alphabet_char(static_cast<uint8_t>(byte)), static_cast<uint8_t>(byte));
  std::sort(alphabet.begin(), alphabet.end());
  std::vector<uint32_t> byte_ids(256);
  for (const auto& [shown_as, byte] : alphabet) {
    const std::string text = to_alphabet(std::string(1, static_cast<char>(byte)));
    // A special token of one character would be that byte's token: both could not be told apart.
    if (ids.contains(text))
      return Error(Code::invalid_argument,
                   fmt::format("special token '{}' is a single byte", text));
    byte_ids[byte] = add(text);
  }

  Merger merger(count_words(texts, options.pattern, options.threads), byte_ids);
  Pair pair;
  while (shown.size() < options.vocabulary_size && merger.next(pair)) {
    std::string text = shown[pair.first] + shown[pair.second];
    const auto known = ids.find(text);
    if (known != ids.end() && known->second < options.specials.size()) continue;
    const uint32_t made = known != ids.end() ? known->second : add(std::move(text));
    parts.merges.push_back(pair);
    merger.merge(made);
  }
  return Tokenizer::make(std::move(parts));
}

}  // namespace muster
