// ModelConfig: the sizes of one decoder, independent of weights and layout. Two families:
//   llama  RMSNorm, RoPE (default type, half-split pairs), grouped-query attention, SwiGLU, no
//   biases
//          (LlamaForCausalLM; Mellum-4b is one);
//   gpt2   LayerNorm, learned positions, multi-head attention with biases, tanh GELU
//   (GPT2LMHeadModel).
//
// Invariant after validate(): every size is positive, the head counts divide, 32-bit ids and
// positions suffice, and no count of parameters or of a context's keys overflows 64 bits. Here:
// reading and writing Hugging Face's config.json. What this program cannot compute (scaled RoPE,
// attention biases in llama, sliding windows, …) is refused with the field named; fields that
// change no number are skipped.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"

namespace muster {

enum class Family : uint8_t { llama, gpt2 };
std::string_view family_name(Family family);
// Errors: invalid_argument lists the known names.
Result<Family> parse_family(std::string_view name);

struct ModelConfig {
  Family family = Family::llama;
  int64_t vocab_size = 0;   // V, rows of the embedding
  int64_t hidden_size = 0;  // d, width of the residual stream
  int64_t layers = 0;       // L
  int64_t heads = 0;        // H, query heads
  int64_t kv_heads = 0;     // G, key/value heads; divides H; gpt2: H
  int64_t head_dim = 0;     // c; even where RoPE turns it; gpt2: d / H
  int64_t mlp_size = 0;     // F
  int64_t context = 0;      // most positions a sequence may have
  double norm_eps = 1e-6;
  double rope_theta = 10000;  // llama only
  bool tie_embeddings = false;
  double initializer_range = 0.02;
  std::optional<int64_t> bos_id, eos_id;  // as the file gives them; carried, never needed

  bool operator==(const ModelConfig&) const = default;
};

inline constexpr int64_t kMostModelSize = int64_t{1} << 24;  // of every size but layers
inline constexpr int64_t kMostLayers = int64_t{1} << 14;
// 17.6 * 10^12: bytes and FLOPs of such a model still fit 64 bits.
inline constexpr int64_t kMostParameters = int64_t{1} << 44;

// Parameters to within norms and biases, for sizes of any magnitude. Exact: ModelSpec.
double about_parameters(const ModelConfig& config);

// Errors: invalid_argument names the field, its value and what would be legal.
Status validate(const ModelConfig& config);

// Reads the text of a config.json and validates it. Errors: corrupt (no JSON object), unsupported
// (a field asks for something not built; names field and value), invalid_argument (missing or
// impossible sizes).
Result<ModelConfig> parse_hf_config(std::string_view json);

// The text of a config.json that transformers reads back to the same model. `dtype`: "float32" or
// "float64".
std::string format_hf_config(const ModelConfig& config, std::string_view dtype);

}  // namespace muster
