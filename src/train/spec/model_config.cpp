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

Status validate(const ModelConfig& c) {
  const auto bad = [](std::string text) { return Error(Code::invalid_argument, std::move(text)); };
  constexpr int64_t kMost = int64_t{1} << 24;  // per size, so that products of three fit 64 bits
  const struct {
    const char* name;
    int64_t value;
  } sizes[] = {
      {"vocab_size", c.vocab_size}, {"hidden_size", c.hidden_size}, {"layers", c.layers},
      {"heads", c.heads},           {"kv_heads", c.kv_heads},       {"head_dim", c.head_dim},
      {"mlp_size", c.mlp_size},     {"context", c.context},
  };
  for (const auto& size : sizes) {
    if (size.value < 1 || size.value > kMost)
      return bad(fmt::format("model: {} = {} must be in 1 … {}", size.name, size.value, kMost));
  }
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
