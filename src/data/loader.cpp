#include "data/loader.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <nlohmann/json.hpp>
#include <optional>
#include <thread>
#include <utility>

#include "base/philox.h"
#include "data/permutation.h"

namespace muster {

// Keeps sums of cursors and step sizes away from the end of 64 bits; no run comes near.
constexpr uint64_t kMostSequences = uint64_t{1} << 62;

std::string LoaderCursor::to_text() const {
  nlohmann::json json;  // keys come out sorted
  json["version"] = 1;
  json["seed"] = seed;
  json["epoch"] = epoch;
  json["group"] = group;
  json["sequence"] = sequence;
  json["sequences_taken"] = sequences_taken;
  json["corpus"] = corpus.hex();
  json["encoding"] = encoding.hex();
  return json.dump();
}

Result<LoaderCursor> LoaderCursor::from_text(std::string_view text) {
  const auto bad = [&](std::string_view why) {
    return Error(Code::corrupt, fmt::format("the loader cursor is not readable: {}", why));
  };
  const auto json = nlohmann::json::parse(text, nullptr, false);
  if (!json.is_object()) return bad("not a JSON object");
  const auto number = [&](const char* key) -> std::optional<uint64_t> {
    const auto it = json.find(key);
    if (it == json.end() || !it->is_number_integer()) return std::nullopt;
    if (it->is_number_unsigned()) return it->get<uint64_t>();
    return std::nullopt;
  };
  const auto hash = [&](const char* key) -> std::optional<Hash128> {
    const auto it = json.find(key);
    if (it == json.end() || !it->is_string()) return std::nullopt;
    return Hash128::from_hex(it->get<std::string>());
  };
  if (number("version") != 1) return bad("version must be 1");
  const auto seed = number("seed"), epoch = number("epoch"), group = number("group"),
             sequence = number("sequence"), taken = number("sequences_taken");
  const auto corpus = hash("corpus"), encoding = hash("encoding");
  if (!seed || !epoch || !group || !sequence || !taken)
    return bad("a number is missing or negative");
  for (const uint64_t value : {*group, *sequence, *taken})
    if (value > kMostSequences) return bad(fmt::format("the number {} is too large", value));
  if (!corpus || !encoding) return bad("a fingerprint is missing");
  return LoaderCursor{*seed,
                      *epoch,
                      static_cast<int64_t>(*group),
                      static_cast<int64_t>(*sequence),
                      static_cast<int64_t>(*taken),
                      *corpus,
                      *encoding};
}

Hash128 encoding_fingerprint(Hash128 tokenizer, double fim_rate, const LoaderShape& shape) {
  Xxh3 hash;
  hash.update(tokenizer.hex());
  hash.update_u64(std::bit_cast<uint64_t>(fim_rate));
  hash.update_u64(static_cast<uint64_t>(shape.sequence_length));
  hash.update_u64(static_cast<uint64_t>(shape.group_documents));
  return hash.digest();
}

static int64_t group_count(const Corpus& corpus, const LoaderShape& shape) {
  return (corpus.size(Corpus::Part::train) + shape.group_documents - 1) / shape.group_documents;
}

struct Loader::Worker {
  Worker(const Corpus& c, DocumentEncoder e, LoaderShape s, LoaderCursor start,
         std::vector<int64_t> wanted_indices, Bytes budget_bytes)
      : corpus(c),
        encoder(std::move(e)),
        shape(s),
        cursor(start),
        wanted(std::move(wanted_indices)),
        budget(budget_bytes) {}

  // ---- used by the background thread alone ----
  const Corpus& corpus;
  const DocumentEncoder encoder;
  const LoaderShape shape;
  LoaderCursor cursor;
  const std::vector<int64_t> wanted;                   // rising
  std::optional<std::pair<uint64_t, int64_t>> loaded;  // epoch and number of the group in `group`
  PackedGroup group;
  std::optional<Permutation> sequence_order;

  int64_t groups() const { return group_count(corpus, shape); }

  Status load_group() {
    if (loaded == std::pair{cursor.epoch, cursor.group}) return {};
    const auto n = static_cast<uint64_t>(corpus.size(Corpus::Part::train));
    const Permutation order(n, cursor.seed, cursor.epoch);
    const int64_t begin = cursor.group * shape.group_documents;
    const int64_t end = std::min(begin + shape.group_documents, static_cast<int64_t>(n));
    group.ids.clear();
    group.starts.clear();
    for (int64_t i = begin; i < end; ++i) {
      const auto document = static_cast<int64_t>(order.at(static_cast<uint64_t>(i)));
      MUSTER_TRY(const std::string text,
                 corpus.read(Corpus::Part::train, document).context("load training data"));
      const FimKey key{cursor.seed, cursor.epoch, corpus.id(Corpus::Part::train, document)};
      encoder.append(text, key, group.ids, group.starts);
    }
    const int64_t sequences = group.sequences(shape.sequence_length);
    // Neighbouring sequences of a long document would otherwise always share a step.
    const uint64_t key = philox_u64(cursor.seed, cursor.epoch, static_cast<uint64_t>(cursor.group));
    sequence_order.emplace(static_cast<uint64_t>(sequences), key, 1);
    loaded = std::pair{cursor.epoch, cursor.group};
    return {};
  }

  // Moves to the next sequence that exists; loads its group.
  Status settle() {
    for (;;) {
      MUSTER_TRY(load_group());
      const int64_t sequences = group.sequences(shape.sequence_length);
      if (cursor.sequence < sequences) return {};
      if (cursor.sequence > sequences) {
        return Error(Code::corrupt,
                     fmt::format("the loader cursor is at sequence {} of group {}, which has {}; "
                                 "resume from another checkpoint",
                                 cursor.sequence, cursor.group, sequences));
      }
      cursor.sequence = 0;
      if (++cursor.group == groups()) {
        cursor.group = 0;
        ++cursor.epoch;
      }
    }
  }

  Result<StepBatch> make_step() {
    StepBatch step;
    for (int64_t m = 0; m < shape.micro_batches; ++m) {
      const bool mine = std::binary_search(wanted.begin(), wanted.end(), m);
      if (mine) step.micro_batches.emplace_back().index = m;
      for (int64_t r = 0; r < shape.rows; ++r) {
        MUSTER_TRY(settle());
        if (mine) {
          MicroBatch& batch = step.micro_batches.back();
          if (r == 0)
            batch.first_sequence =
                fmt::format("{}/{}/{}", cursor.epoch, cursor.group, cursor.sequence);
          append_sequence(
              group,
              static_cast<int64_t>(sequence_order->at(static_cast<uint64_t>(cursor.sequence))),
              shape.sequence_length, encoder.special().end_of_text, batch.rows);
        }
        ++cursor.sequence;
        ++cursor.sequences_taken;
      }
    }
    step.next = cursor;
    return step;
  }

  // ---- shared, under `mutex` ----
  const Bytes budget;
  mutable std::mutex mutex;
  std::condition_variable changed;
  std::deque<StepBatch> prepared;
  int64_t prepared_bytes = 0;
  std::optional<Error> failure;
  bool stop = false;
  std::thread thread;

  // Three int32 a token; segments are few.
  int64_t step_bytes() const {
    return 12 * static_cast<int64_t>(wanted.size()) * shape.rows * shape.sequence_length;
  }

  void run() {
    for (;;) {
      {
        std::unique_lock lock(mutex);
        // At least one step is always prepared, however small the budget.
        changed.wait(lock, [&] {
          return stop || prepared.empty() || prepared_bytes + step_bytes() <= budget.count;
        });
        if (stop) return;
      }
      Result<StepBatch> step = make_step();
      const std::lock_guard lock(mutex);
      if (!step.ok()) {
        failure = std::move(step).error();
        changed.notify_all();
        return;
      }
      prepared.push_back(std::move(*step));
      prepared_bytes += step_bytes();
      changed.notify_all();
    }
  }
};

Loader::Loader(std::unique_ptr<Worker> worker) : worker_(std::move(worker)) {
  worker_->thread = std::thread([w = worker_.get()] { w->run(); });
}

Loader::~Loader() {
  {
    const std::lock_guard lock(worker_->mutex);
    worker_->stop = true;
  }
  worker_->changed.notify_all();
  worker_->thread.join();
}

Status Loader::check_cursor(const LoaderCursor& cursor, const Corpus& corpus, Hash128 encoding) {
  if (cursor.corpus != corpus.fingerprint()) {
    return Error(Code::invalid_argument,
                 fmt::format("the checkpoint was trained on the corpus {} but the corpus found is "
                             "{}; restore the same files, or "
                             "start a new run",
                             cursor.corpus.hex(), corpus.fingerprint().hex()));
  }
  if (cursor.encoding != encoding) {
    return Error(
        Code::invalid_argument,
        fmt::format("the checkpoint's tokenizer, sequence length or fill-in-the-middle rate is not "
                    "this run's "
                    "(encoding {} against {}); resume with the same settings, or start a new run",
                    cursor.encoding.hex(), encoding.hex()));
  }
  return {};
}

LoaderCursor Loader::start_cursor(const Corpus& corpus, Hash128 encoding, uint64_t seed) {
  return {seed, 0, 0, 0, 0, corpus.fingerprint(), encoding};
}

Result<std::unique_ptr<Loader>> Loader::start(const Corpus& corpus, DocumentEncoder encoder,
                                              Hash128 encoding, LoaderShape shape,
                                              LoaderCursor cursor, std::vector<int64_t> wanted,
                                              Bytes prefetch_budget) {
  MUSTER_CHECK(shape.sequence_length >= 1 && shape.rows >= 1 && shape.micro_batches >= 1 &&
               shape.group_documents >= 1);
  MUSTER_CHECK(std::is_sorted(wanted.begin(), wanted.end()));
  MUSTER_TRY(check_cursor(cursor, corpus, encoding));
  // The same corpus in the same groups, so a place outside them was never written by a run. How
  // many sequences the group has shows when it is packed (Worker::settle).
  if (const int64_t groups = group_count(corpus, shape);
      cursor.group < 0 || cursor.group >= groups || cursor.sequence < 0 ||
      cursor.sequences_taken < 0) {
    return Error(Code::corrupt,
                 fmt::format("the loader cursor is at group {}, sequence {}, with {} taken; the "
                             "corpus has {} groups: resume from another checkpoint",
                             cursor.group, cursor.sequence, cursor.sequences_taken, groups));
  }
  auto worker = std::make_unique<Worker>(corpus, std::move(encoder), shape, cursor,
                                         std::move(wanted), prefetch_budget);
  return std::unique_ptr<Loader>(new Loader(std::move(worker)));
}

Result<StepBatch> Loader::next() {
  std::unique_lock lock(worker_->mutex);
  worker_->changed.wait(lock,
                        [&] { return !worker_->prepared.empty() || worker_->failure.has_value(); });
  if (worker_->prepared.empty()) return *worker_->failure;
  StepBatch step = std::move(worker_->prepared.front());
  worker_->prepared.pop_front();
  worker_->prepared_bytes -= worker_->step_bytes();
  worker_->changed.notify_all();
  return step;
}

}  // namespace muster
