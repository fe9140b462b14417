#include "train/step/train_config.h"

#include <fmt/format.h>

#include <limits>

#include "text/bpe_trainer.h"

namespace muster {
namespace {

constexpr int64_t kMany = int64_t{1} << 40;
constexpr Bytes kManyBytes{int64_t{1} << 50};
// <|endoftext|>, the three marks of fill-in-the-middle, and text between them (DocumentEncoder).
constexpr int64_t kShortestSequence = 8;
constexpr Nanos kLong = std::chrono::hours{24 * 365};

Error wrong(std::string text) {
  return Error(Code::invalid_argument, std::move(text));
}

void add_model(Schema& s) {
  s.text("model.family", "llama",
         "llama: RMSNorm, RoPE, grouped heads, SwiGLU; gpt2: LayerNorm, learned positions, GELU",
         {"llama", "gpt2"});
  s.integer("model.layers", 4, 1, 4096, "layers");
  s.integer("model.hidden", 256, 1, 1 << 20, "width of the residual stream");
  s.integer("model.heads", 8, 1, 4096, "query heads");
  s.integer("model.kv_heads", 0, 0, 4096, "key/value heads, a divisor of heads; 0 = heads");
  s.integer("model.head_dim", 0, 0, 4096, "width of a head, even; 0 = hidden / heads");
  s.integer("model.mlp", 688, 1, 1 << 22, "width of the MLP");
  s.integer("model.context", 512, 1, 1 << 24, "most positions a sequence may have");
  s.real("model.rope_theta", 10000, 1.0001, 1e12, "base of RoPE's wavelengths (llama)");
  s.real("model.norm_eps", 1e-5, 1e-12, 0.1, "epsilon of the norms");
  s.boolean("model.tie_embeddings", false, "the head uses the embedding's weights");
  s.real("model.dropout", 0, 0, 0, "dropout; only 0: none is applied");
}

void add_data(Schema& s) {
  s.text("data.source", "stdlib",
         "stdlib: the Python standard library found here; files: a document a file; jsonl: a "
         "document a line, .zst too",
         {"stdlib", "files", "jsonl"});
  s.text_list("data.paths", {}, "files and folders to read; stdlib: empty, or its folder");
  s.text_list("data.endings", {}, "files: name endings to take, as \".py\"; empty = all");
  s.text("data.text_field", "text", "jsonl: the field that holds the text");
  s.real("data.fim_rate", 0.5, 0, 1, "share of documents in suffix-prefix-middle form");
  s.real("data.holdout", 0.02, 0, 0.9, "share of the corpus kept for evaluation");
  s.text("data.holdout_by", "name",
         "name: documents by the hash of their relative name; tail: the last share of the text",
         {"name", "tail"});
  s.integer("data.sequence_length", 512, kShortestSequence, 1 << 24,
            "tokens of a training sequence");
  s.text("data.tokenizer", "train",
         "train: byte-level BPE trained on the corpus and cached; bytes: no merges; or the path of "
         "a tokenizer.json");
  s.integer("data.vocabulary", 4096, 2, 1 << 24,
            "tokens, special ones included; rows of the embedding");
  s.integer("data.group_documents", 64, 1, 1 << 20, "documents packed together");
  s.bytes("data.prefetch", Bytes{64 << 20}, Bytes{1 << 16}, kManyBytes,
          "memory for batches prepared ahead, per worker");
}

void add_batch(Schema& s) {
  s.integer("batch.micro_batches_per_step", 8, 1, 1 << 20, "over all workers");
  s.integer("batch.sequences_per_micro_batch", 2, 1, 1 << 20, "sequences of a micro-batch");
  s.integer("batch.virtual_shards", 0, 0, 1 << 20,
            "lanes of the summation tree, a divisor of micro_batches_per_step; part of the "
            "numerics; 0 = micro_batches_per_step");
}

void add_optimizer(Schema& s) {
  s.real("optimizer.lr", 1e-3, 0, 1e3, "peak learning rate");
  s.real("optimizer.min_lr", 1e-4, 0, 1e3, "learning rate at the end");
  s.real("optimizer.beta1", 0.9, 0, 0.999999, "decay of the first moment");
  s.real("optimizer.beta2", 0.95, 0, 0.999999, "decay of the second moment");
  s.real("optimizer.eps", 1e-8, 1e-30, 1, "added to the root of the second moment");
  s.real("optimizer.weight_decay", 0.1, 0, 100, "decoupled, on matrices and embeddings");
  s.real("optimizer.clip", 1, 0, 1e12, "largest global gradient norm; 0 = no clipping");
  s.text("optimizer.schedule", "cosine",
         "cosine: warm-up, then half a cosine; wsd: warm-up, hold, linear decay",
         {"cosine", "wsd"});
  s.integer("optimizer.warmup_steps", 20, 0, kMany, "steps of linear warm-up");
  s.integer("optimizer.decay_steps", 0, 0, kMany, "wsd: steps of the decay at the end");
}

void add_train(Schema& s) {
  s.integer("train.steps", 150, 1, kMany, "optimizer steps");
  s.integer("train.seed", 1, 0, std::numeric_limits<int32_t>::max(),
            "keys initialisation, data order and sampling");
  s.text("train.mode", "strict",
         "strict: the same bits for any number of workers and threads; fast: vendor kernels where "
         "quicker",
         {"strict", "fast"});
  s.integer("train.threads", 1, 1, 1024, "compute threads of a worker");
  s.bytes("train.memory_budget", Bytes{0}, Bytes{0}, kManyBytes,
          "per worker, for the activations and gradients of a step: frames are recomputed to fit; "
          "\"0\" = no limit");
  s.duration("train.hang_timeout", Nanos{0}, Nanos{0}, kLong,
             "a worker without progress for so long is stopped; \"0s\" = learned from its steps");
  s.duration(
      "train.warm_up_timeout", std::chrono::minutes{5}, std::chrono::milliseconds{1}, kLong,
      "reading corpus and tokenizer before the first step may take so long, or the run ends");
  s.duration("train.comm_timeout", std::chrono::minutes{5}, std::chrono::milliseconds{1}, kLong,
             "a collective that lasts longer fails and names the missing rank");
  s.integer("train.stop_after", 0, 0, int64_t{1} << 40,
            "save and stop after this step, to be resumed later; 0 = run to the end");
  s.integer("train.max_bad_steps", 3, 1, 1 << 20,
            "this many steps in a row with a loss or gradient that is not finite end the run");
}

void add_rest(Schema& s) {
  s.integer("checkpoint.every", 25, 0, kMany, "steps between checkpoints; 0 = only the last");
  s.integer("checkpoint.keep", 3, 1, 1 << 20, "newest checkpoints kept");
  s.integer("checkpoint.ring_buffers", 4, 2, 64, "staging buffers of the writer");
  s.bytes("checkpoint.ring_buffer_size", Bytes{32 << 20}, Bytes{1 << 20}, Bytes{1 << 30},
          "size of one staging buffer");
  s.text("run.dir", "", "folder of the run; empty = runs/NAME-TIME");
  s.integer("run.workers", 2, 1, 1 << 16, "worker processes, one rank each");
  s.integer("run.max_restarts", 3, 0, 1 << 20, "restarts after a lost worker");
  s.integer("eval.every", 0, 0, kMany, "steps between evaluations; 0 = only after the last");
  s.integer("eval.sequences", 64, 0, kMany, "held-out sequences of an evaluation; 0 = all");
  s.integer("eval.sample_tokens", 96, 0, 1 << 20,
            "length of the sample completions at the end; 0 = none");
}

Result<ModelConfig> model_settings(const Config& c) {
  ModelConfig m;
  MUSTER_TRY(m.family, parse_family(c.text("model.family")));
  m.vocab_size = c.integer("data.vocabulary");
  m.hidden_size = c.integer("model.hidden");
  m.layers = c.integer("model.layers");
  m.heads = c.integer("model.heads");
  m.kv_heads = c.integer("model.kv_heads");
  if (m.kv_heads == 0) m.kv_heads = m.heads;
  m.head_dim = c.integer("model.head_dim");
  if (m.head_dim == 0) {
    if (m.hidden_size % m.heads != 0) {
      return wrong(
          fmt::format("model.hidden = {} is not a multiple of model.heads = {}: choose a "
                      "divisor or set model.head_dim",
                      m.hidden_size, m.heads));
    }
    m.head_dim = m.hidden_size / m.heads;
  }
  if (m.head_dim % 2 != 0) {
    return wrong(
        fmt::format("model.head_dim = {} is odd: rotary positions turn pairs, choose an "
                    "even width",
                    m.head_dim));
  }
  if (m.heads % m.kv_heads != 0) {
    return wrong(
        fmt::format("model.kv_heads = {} does not divide model.heads = {}: choose a "
                    "divisor, or 0 for one per head",
                    m.kv_heads, m.heads));
  }
  m.mlp_size = c.integer("model.mlp");
  m.context = c.integer("model.context");
  m.rope_theta = c.real("model.rope_theta");
  m.norm_eps = c.real("model.norm_eps");
  m.tie_embeddings = c.boolean("model.tie_embeddings");
  MUSTER_TRY(validate(m));
  return m;
}

Result<DataSettings> data_settings(const Config& c) {
  DataSettings d;
  const std::string& source = c.text("data.source");
  d.source = source == "stdlib"  ? DataSettings::Source::stdlib
             : source == "files" ? DataSettings::Source::files
                                 : DataSettings::Source::jsonl;
  d.paths = c.text_list("data.paths");
  if (d.source != DataSettings::Source::stdlib && d.paths.empty()) {
    return wrong(
        fmt::format("data.source = \"{}\" needs data.paths: list the files or folders to "
                    "read",
                    source));
  }
  if (d.source == DataSettings::Source::stdlib && d.paths.size() > 1) {
    return wrong(
        fmt::format("data.source = \"stdlib\" reads one folder, and data.paths lists {}: "
                    "leave it empty or use data.source = \"files\"",
                    d.paths.size()));
  }
  d.endings = c.text_list("data.endings");
  d.text_field = c.text("data.text_field");
  d.fim_rate = c.real("data.fim_rate");
  d.holdout = c.real("data.holdout");
  d.holdout_by = c.text("data.holdout_by") == "name" ? DataSettings::Holdout::name
                                                     : DataSettings::Holdout::tail;
  d.sequence_length = c.integer("data.sequence_length");
  d.tokenizer = c.text("data.tokenizer");
  if (d.tokenizer.empty())
    return wrong("data.tokenizer is empty: write \"train\", \"bytes\" or a path");
  d.vocabulary = c.integer("data.vocabulary");
  constexpr int64_t kBytes = 256;
  const auto specials = static_cast<int64_t>(code_specials().size());
  if (d.vocabulary < kBytes + specials && (d.tokenizer == "train" || d.tokenizer == "bytes")) {
    return wrong(
        fmt::format("data.vocabulary = {} cannot hold the {} bytes and {} special tokens "
                    "of data.tokenizer = \"{}\": use at least {}",
                    d.vocabulary, kBytes, specials, d.tokenizer, kBytes + specials));
  }
  d.group_documents = c.integer("data.group_documents");
  d.prefetch = c.bytes("data.prefetch");
  return d;
}

Result<BatchSettings> batch_settings(const Config& c) {
  BatchSettings b;
  b.micro_batches_per_step = c.integer("batch.micro_batches_per_step");
  b.sequences_per_micro_batch = c.integer("batch.sequences_per_micro_batch");
  b.virtual_shards = c.integer("batch.virtual_shards");
  if (b.virtual_shards == 0) b.virtual_shards = b.micro_batches_per_step;
  if (b.micro_batches_per_step % b.virtual_shards != 0) {
    return wrong(
        fmt::format("batch.virtual_shards = {} does not divide "
                    "batch.micro_batches_per_step = {}: choose a divisor, or 0",
                    b.virtual_shards, b.micro_batches_per_step));
  }
  return b;
}

Result<OptimizerSettings> optimizer_settings(const Config& c) {
  OptimizerSettings o;
  o.lr = c.real("optimizer.lr");
  o.min_lr = c.real("optimizer.min_lr");
  if (o.min_lr > o.lr) {
    return wrong(
        fmt::format("optimizer.min_lr = {} is above optimizer.lr = {}: lower it", o.min_lr, o.lr));
  }
  o.beta1 = c.real("optimizer.beta1");
  o.beta2 = c.real("optimizer.beta2");
  o.eps = c.real("optimizer.eps");
  o.weight_decay = c.real("optimizer.weight_decay");
  o.clip = c.real("optimizer.clip");
  o.schedule = c.text("optimizer.schedule") == "cosine" ? OptimizerSettings::Schedule::cosine
                                                        : OptimizerSettings::Schedule::wsd;
  o.warmup_steps = c.integer("optimizer.warmup_steps");
  o.decay_steps = c.integer("optimizer.decay_steps");
  if (o.schedule == OptimizerSettings::Schedule::cosine && o.decay_steps != 0) {
    return wrong(
        fmt::format("optimizer.decay_steps = {} belongs to schedule \"wsd\"; \"cosine\" "
                    "decays from the warm-up to the last step: leave it at 0",
                    o.decay_steps));
  }
  const int64_t steps = c.integer("train.steps");
  // A run that is shorter than its warm-up ends inside it.
  if (o.decay_steps > 0 && o.warmup_steps + o.decay_steps > steps) {
    return wrong(
        fmt::format("optimizer.warmup_steps + decay_steps = {} + {} is more than "
                    "train.steps = {}: shorten them or train longer",
                    o.warmup_steps, o.decay_steps, steps));
  }
  return o;
}

TrainSettings train_settings(const Config& c) {
  TrainSettings t;
  t.steps = c.integer("train.steps");
  t.seed = c.integer("train.seed");
  t.mode =
      c.text("train.mode") == "strict" ? TrainSettings::Mode::strict : TrainSettings::Mode::fast;
  t.threads = c.integer("train.threads");
  t.memory_budget = c.bytes("train.memory_budget");
  t.hang_timeout = c.duration("train.hang_timeout");
  t.warm_up_timeout = c.duration("train.warm_up_timeout");
  t.comm_timeout = c.duration("train.comm_timeout");
  t.max_bad_steps = c.integer("train.max_bad_steps");
  t.stop_after = c.integer("train.stop_after");
  return t;
}

// FLOPs and bytes of a step are counted in 64 bits (train/step/program.h). In double, which does
// not overflow; generous, as it only has to keep away from 2^63.
Status check_step_size(const TrainConfig& t) {
  const auto real = [](int64_t n) { return static_cast<double>(n); };
  const ModelConfig& m = t.model;
  const double length = real(t.data.sequence_length);
  const double tokens =
      real(t.batch.micro_batches_per_step) * real(t.batch.sequences_per_micro_batch) * length;
  const double heads = real(m.layers) * real(m.heads) * real(m.head_dim);
  const double saved = real(m.layers) * (real(3 * m.heads) * real(m.head_dim) +
                                         real(3 * m.mlp_size) + real(2 * m.hidden_size)) +
                       real(m.vocab_size);
  const double work = tokens * (6 * about_parameters(m) + 12 * heads * length + 128 * saved);
  if (work < 0x1p61) return {};
  return wrong(
      fmt::format("a step of batch.micro_batches_per_step * batch.sequences_per_micro_batch * "
                  "data.sequence_length = {} * {} * {} tokens is too large to be counted for this "
                  "model: about {:.2g} operations; lower one of them",
                  t.batch.micro_batches_per_step, t.batch.sequences_per_micro_batch,
                  t.data.sequence_length, work));
}

}  // namespace

const Schema& train_schema() {
  static const Schema schema = [] {
    Schema s;
    add_model(s);
    add_data(s);
    add_batch(s);
    add_optimizer(s);
    add_train(s);
    add_rest(s);
    return s;
  }();
  return schema;
}

Result<TrainConfig> make_train_config(const Config& c) {
  TrainConfig t;
  MUSTER_TRY(t.model, model_settings(c));
  MUSTER_TRY(t.data, data_settings(c));
  MUSTER_TRY(t.batch, batch_settings(c));
  MUSTER_TRY(t.optimizer, optimizer_settings(c));
  t.train = train_settings(c);
  t.checkpoint = {c.integer("checkpoint.every"), c.integer("checkpoint.keep"),
                  c.integer("checkpoint.ring_buffers"), c.bytes("checkpoint.ring_buffer_size")};
  t.run = {c.text("run.dir"), c.integer("run.workers"), c.integer("run.max_restarts")};
  t.eval = {c.integer("eval.every"), c.integer("eval.sequences"), c.integer("eval.sample_tokens")};

  if (t.data.sequence_length > t.model.context) {
    return wrong(
        fmt::format("data.sequence_length = {} is more than model.context = {}: shorten "
                    "the sequences or widen the context",
                    t.data.sequence_length, t.model.context));
  }
  MUSTER_TRY(check_step_size(t));
  if (t.run.workers > t.batch.virtual_shards) {
    return wrong(fmt::format(
        "run.workers = {} is more than the {} micro-batches ({}) there are to "
        "share: use at most {} workers or raise "
        "batch.micro_batches_per_step",
        t.run.workers, t.batch.virtual_shards,
        t.batch.virtual_shards == t.batch.micro_batches_per_step ? "batch.micro_batches_per_step"
                                                                 : "batch.virtual_shards",
        t.batch.virtual_shards));
  }
  return t;
}

}  // namespace muster
