// Byte-pair merging as the reference defines it: while some adjacent pair has a merge, the one of
// the lowest rank is merged, the leftmost of them where several have it. This is the definition,
// used to analyse a vocabulary, for vocabularies that the faster encoder cannot take, and as its
// oracle. Short inputs scan an array, long ones keep a heap over linked symbols: n log n, so no
// input is slow. Pure; any thread, one MergeScratch each.
#pragma once

#include <cstdint>
#include <vector>

#include "text/pair_table.h"

namespace muster {

// Values of the table: rank << 32 | token made.
struct MergeScratch {
  struct Candidate {
    uint64_t order;  // rank << 32 | position of the left symbol
    uint32_t left, right;
  };
  std::vector<Candidate> heap;
  std::vector<uint32_t> next, previous;
  uint64_t operations = 0;  // merges tried so far: a measure of work that tests can bound
};

// Merges `symbols` in place; returns how many are left. If `last` is not null it gets the pair of
// the last merge done.
struct MergedPair {
  uint32_t left, right, rank;
};
size_t merge_symbols(const PairTable& merges, uint32_t* symbols, size_t count,
                     MergeScratch& scratch, MergedPair* last);

}  // namespace muster
