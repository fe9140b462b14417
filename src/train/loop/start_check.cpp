#include "train/loop/start_check.h"

#include <fmt/format.h>

#include <numeric>

#include "ckpt/reader.h"
#include "ckpt/scan.h"
#include "train/ops/kernels.h"
#include "train/spec/checkpoint_model.h"
#include "train/step/plan_step.h"

namespace muster {
namespace {

// Lanes decide the tree of additions (comm/rank_tree.h).
constexpr const char* kLanesChoice = "batch.virtual_shards";

// Every tensor of a run's state: parameters and both moments.
std::vector<TensorInfo> state_tensors(const ModelSpec& spec) {
  std::vector<TensorInfo> infos;
  for (const Param& param : spec.params) {
    infos.push_back(parameter_info(param, spec.real));
    for (const Moment moment : {Moment::first, Moment::second})
      infos.push_back(moment_info(param, spec.real, moment));
  }
  return infos;
}

Status check_numerics(const Manifest& manifest, const TrainConfig& config) {
  const auto differs = [](std::string_view what, const auto& then, const auto& now) {
    return Error(Code::invalid_argument,
                 fmt::format("the checkpoint was written with {} = {} and this run has {}; the "
                             "numbers would not continue. "
                             "Use the same setting, or start a new run",
                             what, then, now));
  };
  const Numerics &then = manifest.numerics, now = numerics_of(config);
  if (then.mode != now.mode) return differs("train.mode", then.mode, now.mode);
  if (then.k_blocks != now.k_blocks) return differs("K-blocks", then.k_blocks, now.k_blocks);
  if (then.micro_batches != now.micro_batches)
    return differs("batch.micro_batches_per_step", then.micro_batches, now.micro_batches);
  const auto seed = static_cast<uint64_t>(config.train.seed);
  if (manifest.scalars.rng_seed != seed)
    return differs("train.seed", manifest.scalars.rng_seed, seed);
  const auto lanes = then.choices.find(kLanesChoice);
  const std::string& own_lanes = now.choices.at(kLanesChoice);
  if (lanes != then.choices.end() && lanes->second != own_lanes)
    return differs(kLanesChoice, lanes->second, own_lanes);
  return {};
}

}  // namespace

Numerics numerics_of(const TrainConfig& config) {
  Numerics numerics;
  numerics.mode = config.train.mode == TrainSettings::Mode::strict ? "strict" : "fast";
  numerics.k_blocks = ops::kKBlocks;
  numerics.micro_batches = config.batch.micro_batches_per_step;
  numerics.choices[kLanesChoice] = std::to_string(config.batch.virtual_shards);
  return numerics;
}

Status check_continues(const Manifest& manifest, const Warm& warm) {
  MUSTER_TRY(check_numerics(manifest, warm.config));
  const std::string tokenizer = warm.tokenizer.fingerprint().hex();
  if (manifest.tokenizer != tokenizer) {
    return Error(Code::invalid_argument,
                 fmt::format("the checkpoint belongs to the tokenizer {} and this run has {}; put "
                             "the run's tokenizer.json "
                             "back, or start a new run",
                             manifest.tokenizer, tokenizer));
  }
  MUSTER_TRY(const ModelSpec spec, make_model_spec(warm.config.model, Real::f32));
  MUSTER_TRY(check_tensors(manifest, state_tensors(spec)));
  if (manifest.scalars.schedule_step > warm.config.train.steps) {
    return Error(Code::invalid_argument,
                 fmt::format("the newest checkpoint is at step {}, beyond train.steps = {}; raise "
                             "--steps, or remove the newer checkpoints from {}",
                             manifest.scalars.schedule_step, warm.config.train.steps,
                             warm.run.checkpoints()));
  }
  MUSTER_TRY(const LoaderCursor cursor, LoaderCursor::from_text(manifest.scalars.loader_cursor));
  return Loader::check_cursor(cursor, warm.corpus, warm.encoding);
}

Result<RingOptions> ring_options(const CheckpointSettings& settings) {
  RingOptions ring;
  ring.buffers = static_cast<size_t>(settings.ring_buffers);
  ring.buffer_bytes = static_cast<size_t>(settings.ring_buffer_size.count);
  // Pieces of whole MiB that make up a buffer, whatever its size.
  ring.piece_bytes = std::gcd(ring.piece_bytes, ring.buffer_bytes);
  if (ring.piece_bytes % (1 << 20) != 0) {
    return Error(Code::invalid_argument,
                 fmt::format("checkpoint.ring_buffer_size = {} bytes is not a number of whole MiB",
                             ring.buffer_bytes));
  }
  return ring;
}

Status check_start(Files& files, const Warm& warm) {
  MUSTER_TRY(ring_options(warm.config.checkpoint));
  const int world = static_cast<int>(warm.config.run.workers);
  // Ranks differ in their lanes, and so in their memory.
  for (int rank = 0; rank < world; ++rank) MUSTER_TRY(plan_step(warm.config, world, Rank{rank}));
  MUSTER_TRY(const Scan scan, scan_checkpoints(files, warm.run.checkpoints(), Depth::quick));
  if (scan.valid.empty()) return {};
  MUSTER_TRY(const Manifest manifest, read_manifest(files, scan.valid[0].folder));
  return check_continues(manifest, warm).context(scan.valid[0].folder);
}

}  // namespace muster
