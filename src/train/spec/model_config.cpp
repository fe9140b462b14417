#include "train/spec/model_config.h"

#include <fmt/format.h>

#include <cmath>
#include <limits>

namespace muster {

std::string_view family_name(Family family) {
  return family == Family::llama ? "llama" : "gpt2";
}

Result<Family> parse_family(std::string_view name) {
  if (name == "llama") return Family::llama;
  if (name == "gpt2") return Family::gpt2;
  return Error(Code::invalid_argument,
               fmt::format("model family \"{}\" is unknown; known: llama, gpt2", name));
}

// In double, which does not overflow.
double about_parameters(const ModelConfig& c) {
  const auto real = [](int64_t n) { return static_cast<double>(n); };
  const bool gpt2 = c.family == Family::gpt2;
  const double d = real(c.hidden_size);
  const double attention = (2 * real(c.heads) + 2 * real(c.kv_heads)) * real(c.head_dim) * d;
  const double mlp = (gpt2 ? 2 : 3) * real(c.mlp_size) * d;
  const double ends = (c.tie_embeddings ? 1 : 2) * real(c.vocab_size) * d;
  return real(c.layers) * (attention + mlp) + ends + (gpt2 ? real(c.context) * d : 0);
}

Status validate(const ModelConfig& c) {
  const auto bad = [](std::string text) { return Error(Code::invalid_argument, std::move(text)); };
  const struct {
    const char* name;
    int64_t value, most;
  } sizes[] = {
      {"vocab_size", c.vocab_size, kMostModelSize},
      {"hidden_size", c.hidden_size, kMostModelSize},
      {"layers", c.layers, kMostLayers},
      {"heads", c.heads, kMostModelSize},
      {"kv_heads", c.kv_heads, kMostModelSize},
      {"head_dim", c.head_dim, kMostModelSize},
      {"mlp_size", c.mlp_size, kMostModelSize},
      {"context", c.context, kMostModelSize},
  };
  for (const auto& size : sizes) {
    if (size.value < 1 || size.value > size.most)
      return bad(fmt::format("model: {} = {} must be in 1 … {}", size.name, size.value, size.most));
  }
  if (about_parameters(c) > static_cast<double>(kMostParameters))
    return bad(fmt::format("model: these sizes give {:.3g} parameters; at most {} can be counted",
                           about_parameters(c), kMostParameters));
  const double keys = static_cast<double>(c.layers) * static_cast<double>(c.kv_heads) *
                      static_cast<double>(c.head_dim) * static_cast<double>(c.context);
  if (constexpr double kMostKeys = 0x1p52; keys > kMostKeys)
    return bad(
        fmt::format("model: the keys of a context are layers * kv_heads * head_dim * context = "
                    "{:.3g} numbers; at most {:.3g} can be counted",
                    keys, kMostKeys));
  if (c.heads % c.kv_heads != 0)
    return bad(fmt::format("model: kv_heads = {} must divide heads = {}", c.kv_heads, c.heads));
  if (c.head_dim % 2 != 0)
    return bad(
        fmt::format("model: head_dim = {} must be even (its halves form pairs)", c.head_dim));
  if (!(c.norm_eps > 0) || !std::isfinite(c.norm_eps))
    return bad(fmt::format("model: norm_eps = {} must be positive", c.norm_eps));
  if (!(c.initializer_range >= 0) || !std::isfinite(c.initializer_range))
    return bad(
        fmt::format("model: initializer_range = {} must not be negative", c.initializer_range));
  if (c.family == Family::llama && (!(c.rope_theta > 1) || !std::isfinite(c.rope_theta)))
    return bad(fmt::format("model: rope_theta = {} must be above 1", c.rope_theta));
  if (c.family == Family::gpt2) {
    if (c.kv_heads != c.heads)
      return bad(fmt::format("model: gpt2 has no grouped heads: kv_heads = {} must be heads = {}",
                             c.kv_heads, c.heads));
    if (c.heads * c.head_dim != c.hidden_size)
      return bad(
          fmt::format("model: gpt2 needs heads * head_dim = hidden_size, got {} * {} = {}, not {}",
                      c.heads, c.head_dim, c.heads * c.head_dim, c.hidden_size));
  }
  return {};
}

}  // namespace muster
