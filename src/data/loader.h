// Loader: the micro-batches of every step, in an order that is a pure function of (seed, corpus,
// tokenizer, shapes) and of the cursor alone: never of the number of workers, their speed or the
// prefetch depth.
//
// Documents are taken in the order of a keyed permutation per epoch, in groups of
// `group_documents`; a group is encoded and packed as a whole, and its sequences are taken in a
// keyed order of their own (every rank computes the sequence count of every group, so all agree
// where a sequence is without talking). A step takes micro_batches x rows sequences in order; a
// rank materialises only its micro-batches.
//
// A background thread prepares steps ahead within a byte budget. One consumer thread.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/hash.h"
#include "base/result.h"
#include "base/units.h"
#include "data/corpus.h"
#include "data/document_encoder.h"
#include "data/packing.h"

namespace muster {

struct LoaderShape {
  int64_t sequence_length = 512;
  int64_t rows = 2;           // sequences of a micro-batch
  int64_t micro_batches = 8;  // of a step, over all workers
  int64_t group_documents = 64;
};

// Where the next step begins. Free of ranks and workers; less than 1 KiB as text.
struct LoaderCursor {
  uint64_t seed = 0;
  uint64_t epoch = 0;
  int64_t group = 0, sequence = 0;  // the next place in the group's order of sequences
  int64_t sequences_taken = 0;
  Hash128 corpus, encoding;  // fingerprints; other data is refused on restore

  std::string to_text() const;  // canonical JSON
  static Result<LoaderCursor> from_text(std::string_view text);
  bool operator==(const LoaderCursor&) const = default;
};

struct MicroBatch {
  int64_t index = 0;           // global micro-batch index of the step, 0 … micro_batches-1
  PackedRows rows;             // rows x sequence_length tokens
  std::string first_sequence;  // "epoch/group/sequence", to name a batch in a report
};

struct StepBatch {
  std::vector<MicroBatch> micro_batches;  // this rank's, rising index
  LoaderCursor next;                      // the cursor after this step
};

class Loader {
 public:
  // `corpus` must outlive the loader; `encoder` is used by the background thread alone. The
  // micro-batches `wanted` (rising global indices) of every step are materialised. `cursor` comes
  // from start_cursor() or a checkpoint. Errors: those of check_cursor; corrupt when the place is
  // outside of the data (a sequence behind its group's end: at next()).
  static Result<std::unique_ptr<Loader>> start(const Corpus& corpus, DocumentEncoder encoder,
                                               Hash128 encoding, LoaderShape shape,
                                               LoaderCursor cursor, std::vector<int64_t> wanted,
                                               Bytes prefetch_budget);
  ~Loader();

  // Whether `cursor` belongs to this data. Errors: invalid_argument, saying what differs.
  static Status check_cursor(const LoaderCursor& cursor, const Corpus& corpus, Hash128 encoding);

  static LoaderCursor start_cursor(const Corpus& corpus, Hash128 encoding, uint64_t seed);

  // Blocks until the next step is ready. Errors: those of reading the corpus.
  Result<StepBatch> next();

 private:
  struct Worker;
  explicit Loader(std::unique_ptr<Worker> worker);
  std::unique_ptr<Worker> worker_;
};

// Names everything that decides which tokens a document becomes and how they are packed.
Hash128 encoding_fingerprint(Hash128 tokenizer, double fim_rate, const LoaderShape& shape);

}  // namespace muster
