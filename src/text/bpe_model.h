// BpeModel: a vocabulary with its merges, made ready to turn pieces of text into ids.
//
// Three facts, true for every table of merges under "lowest rank first, leftmost first", carry it:
//  - A token that its own bytes merge to ("canonical") always comes about by the same tree of
//  merges;
//    merges that build it another way never happen and are dropped when the model is made.
//  - If a text's encoding has a boundary at some byte, the two sides encode on their own.
//  - So a row of canonical tokens is the encoding of its bytes exactly when every two neighbours
//  are
//    the encoding of theirs.
// Hence encode(): walk a trie for the longest token, keep it if it may follow the one before, else
// try the next shorter, else step back. Each byte is a boundary at most once, so the work is
// linear. It needs ranks that rise along every tree and all 256 bytes in the vocabulary; other
// models merge.
//
// Immutable once made: any thread. A PairMemo is a cache of one thread.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "text/merge.h"
#include "text/merge_pairs.h"
#include "text/pair_table.h"
#include "text/token_index.h"
#include "text/token_trie.h"

namespace muster {

// Remembers which tokens may stand side by side; direct mapped, bounded.
class PairMemo {
 public:
  explicit PairMemo(int slots_log2) : slots_(size_t{1} << slots_log2, 0), shift_(64 - slots_log2) {}

 private:
  friend class BpeModel;
  HugeVector<uint64_t> slots_;
  int shift_;
};

struct PieceScratch {
  explicit PieceScratch(int memo_slots_log2) : memo(memo_slots_log2) {}

  PairMemo memo;
  MergeScratch merging;
  std::vector<uint64_t> blocked;  // a bit a byte
  std::vector<uint8_t> padded;
  uint64_t operations = 0;  // tokens tried: a measure of work that tests can bound
};

class BpeModel {
 public:
  // `tokens`: id -> bytes, nothing for an id without one or whose text is outside the byte
  // alphabet. `merges`: pairs of ids in rank order; the last of equal pairs counts.
  // `ignore_merges`: a piece that is a token is that token, whatever its bytes merge to.
  // Errors: invalid_argument when a merge makes no token.
  static Result<BpeModel> make(const std::vector<std::optional<std::string>>& tokens,
                               const std::vector<std::pair<uint32_t, uint32_t>>& merges,
                               bool ignore_merges);

  // Writes the ids of `piece` to `out`, which has room for piece.size() of them; returns how many.
  // Bytes that the vocabulary lacks are left out, as in the reference.
  // `readable` >= piece.size(): bytes from the piece's start on that may be read (not used).
  size_t encode(std::string_view piece, size_t readable, uint32_t* out,
                PieceScratch& scratch) const;

  // The same by merging alone.
  size_t encode_by_merging(std::string_view piece, uint32_t* out, MergeScratch& scratch) const;

  // False: encode() merges, because of missing bytes.
  bool walks() const { return walks_; }
  bool has_all_bytes() const { return has_all_bytes_; }

 private:
  // Canonical tokens are numbered anew: bytes 0-255, then the others in the rank order of their
  // merges.
  struct Prefix {
    uint32_t shorter;  // longest canonical token that is a proper prefix; kNone for a byte
    uint32_t length;
  };
  static constexpr uint32_t kNone = ~uint32_t{0};

  void find_canonical(const std::vector<std::optional<std::string>>& tokens);
  void find_whole_only(const std::vector<std::optional<std::string>>& tokens);
  void number_tokens(const std::vector<std::optional<std::string>>& tokens);
  bool may_follow(uint32_t left, uint32_t right) const;
  bool may_follow_by_merging(uint32_t left, uint32_t right) const;
  void append_bytes(uint32_t token, std::vector<uint32_t>& symbols) const;
  bool may_follow(uint32_t left, uint32_t right, PairMemo& memo) const;
  size_t walk(const uint8_t* text, size_t size, uint32_t* out, PieceScratch& scratch) const;
  TokenIndex::Match longest(const uint8_t* text, size_t left) const;

  struct Canonical {
    uint32_t id, left, right, rank;
  };
  bool walks_ = false;
  bool has_all_bytes_ = false;
  std::array<uint32_t, 256> byte_ids_{};  // kNone when missing
  PairTable merges_;                      // by ids, canonical merges only: rank << 32 | id
  std::vector<Canonical> node_of_;        // canonical tokens of two bytes and more, by rank
  TokenTrie whole_only_;                  // ids of the tokens that only ignore_merges can produce
  TokenTrie trie_;                        // numbers of the canonical tokens
  TokenIndex index_;                      // the same, of at most 15 bytes
  HugeVector<Prefix> prefixes_;           // by number
  std::vector<bool> rising_;              // by number: ranks rise along the whole tree
  HugeVector<uint32_t> id_of_;            // number -> id
  MergePairs pairs_;                      // by numbers
};

}  // namespace muster
