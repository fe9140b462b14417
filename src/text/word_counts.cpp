#include "text/word_counts.h"

#include <algorithm>
#include <atomic>

#include "base/hash.h"
#include "sys/thread_team.h"
#include "text/cpu_level.h"

namespace muster {

namespace {

// Open addressing, at most half full. The map of one thread.
class CountMap {
 public:
  CountMap() : slots_(1u << 12) {}

  void add(std::string_view word, uint64_t times) {
    Slot& slot = find(word, xxh3_64(word));
    if (slot.count == 0) {
      slot.word = word;
      if (++used_ * 2 > slots_.size()) {
        slot.count = times;
        grow();
        return;
      }
    }
    slot.count += times;
  }

  template <class Visit>
  void each(const Visit& visit) const {
    for (const Slot& slot : slots_)
      if (slot.count != 0) visit(slot.word, slot.count);
  }

 private:
  struct Slot {
    std::string_view word;
    uint64_t hash = 0, count = 0;
  };

  Slot& find(std::string_view word, uint64_t hash) {
    size_t at = hash & (slots_.size() - 1);
    while (slots_[at].count != 0 && !(slots_[at].hash == hash && slots_[at].word == word))
      at = (at + 1) & (slots_.size() - 1);
    slots_[at].hash = hash;
    return slots_[at];
  }

  void grow() {
    std::vector<Slot> old(slots_.size() * 2);
    old.swap(slots_);
    for (const Slot& slot : old)
      if (slot.count != 0) find(slot.word, slot.hash) = slot;
  }

  std::vector<Slot> slots_;
  size_t used_ = 0;
};

}  // namespace

std::vector<WordCount> count_words(std::span<const std::string_view> texts, SplitPattern pattern,
                                   int threads) {
  std::vector<CountMap> maps(static_cast<size_t>(threads));
  std::atomic<size_t> next{0};
  const CpuLevel level = best_cpu_level();
  ThreadTeam team(threads);
  team.run([&](int member) {
    CountMap& map = maps[static_cast<size_t>(member)];
    size_t ends[256];
    for (size_t i; (i = next.fetch_add(1)) < texts.size();) {
      const std::string_view text = texts[i];
      for (size_t at = 0; at < text.size();) {
        const size_t count = next_pieces(pattern, text, at, ends, std::size(ends), level);
        for (size_t k = 0; k < count; ++k) {
          map.add(text.substr(at, ends[k] - at), 1);
          at = ends[k];
        }
      }
    }
  });
  for (size_t i = 1; i < maps.size(); ++i)
    maps[i].each([&](std::string_view word, uint64_t count) { maps[0].add(word, count); });
  std::vector<WordCount> words;
  maps[0].each([&](std::string_view word, uint64_t count) { words.push_back({word, count}); });
  std::sort(words.begin(), words.end(),
            [](const WordCount& a, const WordCount& b) { return a.word < b.word; });
  return words;
}

}  // namespace muster
