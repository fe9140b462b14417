// The model inside a checkpoint folder, without tensors or kernels: config.json (Hugging Face's
// form) and, when the run has one, tokenizer.json lie beside the shards as attachments; parameters
// are tensors of Role::parameter under their Hugging Face names and shapes. Moments, where there
// are any, are "m.NAME" and "v.NAME".
//
// Errors: those of CheckpointReader; corrupt when config.json and the tensors do not belong
// together.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/random.h"
#include "ckpt/commit.h"
#include "ckpt/reader.h"
#include "train/spec/block_spec.h"

namespace muster {

inline constexpr std::string_view kModelConfigFile = "config.json";
inline constexpr std::string_view kTokenizerFile = "tokenizer.json";
// Layout tag of the projections whose rows RoPE pairs: row i of a head with row i + head_dim / 2.
inline constexpr std::string_view kRopeHalves = "rope_halves";

TensorInfo parameter_info(const Param& param, Real real);
enum class Moment : uint8_t { first, second };
TensorInfo moment_info(const Param& param, Real real, Moment moment);

// What a checkpoint of this model carries beside the shards. `tokenizer_json` may be empty.
std::vector<Attachment> model_attachments(const ModelSpec& spec, std::string tokenizer_json);

// The configuration, checked against the parameters that the manifest lists.
Result<ModelConfig> read_checkpoint_config(CheckpointReader& reader);

// All elements of `param`, row-major, converted from the stored float32 or float64.
// out.size() = param.count().
Status load_parameter(CheckpointReader& reader, const Param& param, std::span<float> out);
Status load_parameter(CheckpointReader& reader, const Param& param, std::span<double> out);

// Writes a checkpoint that holds a model and nothing else (step 0, no moments) as `folder`, which
// must not exist; its parent must. A '/' at its end is dropped. Work goes on in a new hidden folder
// beside it, which is removed again. `elements` gives a parameter's row-major bytes in the spec's
// number type, constant until the call returns. `tokenizer_fingerprint` may be empty. A failed call
// leaves nothing behind under that name.
Status write_model_checkpoint(
    Files& files, const Clock& clock, Random& random, std::string folder, const ModelSpec& spec,
    const std::function<std::span<const std::byte>(const Param&)>& elements,
    std::string tokenizer_json, std::string tokenizer_fingerprint);

}  // namespace muster
