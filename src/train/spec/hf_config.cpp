// Hugging Face config.json <-> ModelConfig, for LlamaForCausalLM and GPT2LMHeadModel as
// transformers 4 and 5 write them (5 moved rope_theta into rope_parameters).
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "train/spec/model_config.h"

namespace muster {
namespace {

using Json = nlohmann::json;

Error unsupported(std::string_view field, const Json& value, std::string_view supported) {
  return Error(Code::unsupported, fmt::format("config.json: {} = {} is not built; supported: {}",
                                              field, value.dump(), supported));
}

// A field that changes the numbers: absent, null or `neutral` is fine, everything else is refused.
struct Neutral {
  const char* field;
  Json neutral;
};

Status check_neutral(const Json& object, const std::vector<Neutral>& fields) {
  for (const Neutral& f : fields) {
    const auto it = object.find(f.field);
    if (it == object.end() || it->is_null() || *it == f.neutral) continue;
    return unsupported(f.field, *it, f.neutral.dump());
  }
  return {};
}

// A size of the model.
Result<int64_t> integer(const Json& object, const char* field, std::optional<int64_t> missing) {
  const auto it = object.find(field);
  if (it == object.end() || it->is_null()) {
    if (missing) return *missing;
    return Error(Code::invalid_argument, fmt::format("config.json: {} is missing", field));
  }
  if (!it->is_number_integer() ||
      (it->is_number_unsigned() && it->get<uint64_t>() > uint64_t{INT64_MAX}))
    return Error(Code::invalid_argument,
                 fmt::format("config.json: {} = {} must be an integer", field, it->dump()));
  const auto value = it->get<int64_t>();
  if (value < 1 || value > kMostModelSize)
    return Error(Code::invalid_argument, fmt::format("config.json: {} = {} must be in 1 … {}",
                                                     field, value, kMostModelSize));
  return value;
}

Result<double> number(const Json& object, const char* field, double missing) {
  const auto it = object.find(field);
  if (it == object.end() || it->is_null()) return missing;
  if (!it->is_number())
    return Error(Code::invalid_argument,
                 fmt::format("config.json: {} = {} must be a number", field, it->dump()));
  return it->get<double>();
}

Result<bool> boolean(const Json& object, const char* field, bool missing) {
  const auto it = object.find(field);
  if (it == object.end() || it->is_null()) return missing;
  if (!it->is_boolean())
    return Error(Code::invalid_argument,
                 fmt::format("config.json: {} = {} must be true or false", field, it->dump()));
  return it->get<bool>();
}

// A single token id; lists (several end tokens) keep the first.
Result<std::optional<int64_t>> token_id(const Json& object, const char* field) {
  const auto it = object.find(field);
  if (it == object.end() || it->is_null()) return std::optional<int64_t>();
  const Json& value = it->is_array() && !it->empty() ? it->front() : *it;
  if (!value.is_number_integer())
    return Error(Code::invalid_argument,
                 fmt::format("config.json: {} = {} must be a token id", field, it->dump()));
  return std::optional<int64_t>(value.get<int64_t>());
}

Status read_rope(const Json& object, ModelConfig& config) {
  MUSTER_TRY(config.rope_theta, number(object, "rope_theta", 10000.0));
  for (const char* field : {"rope_scaling", "rope_parameters"}) {
    const auto it = object.find(field);
    if (it == object.end() || it->is_null()) continue;
    if (!it->is_object())
      return Error(Code::invalid_argument,
                   fmt::format("config.json: {} = {} must be an object", field, it->dump()));
    for (const auto& [key, value] : it->items()) {
      if (key == "rope_theta" || key == "partial_rotary_factor") continue;
      if ((key == "rope_type" || key == "type") && value == "default") continue;
      return unsupported(std::string(field) + "." + key, value,
                         "rope_type \"default\" (no scaling)");
    }
    MUSTER_TRY(config.rope_theta, number(*it, "rope_theta", config.rope_theta));
    MUSTER_TRY(check_neutral(*it, {{"partial_rotary_factor", 1.0}}));
  }
  return {};
}

Status read_llama(const Json& j, ModelConfig& c) {
  MUSTER_TRY(check_neutral(j, {{"attention_bias", false},
                               {"mlp_bias", false},
                               {"sliding_window", nullptr},
                               {"use_sliding_window", false},
                               {"qk_norm", false},
                               {"use_qk_norm", false},
                               {"partial_rotary_factor", 1.0},
                               {"num_local_experts", nullptr},
                               {"num_experts", nullptr},
                               {"quantization_config", nullptr}}));
  if (const auto it = j.find("hidden_act"); it != j.end() && *it != "silu" && *it != "swish")
    return unsupported("hidden_act", *it, "\"silu\"");
  if (const auto it = j.find("layer_types"); it != j.end() && !it->is_null()) {
    for (const Json& type : *it)
      if (type != "full_attention") return unsupported("layer_types", type, "\"full_attention\"");
  }
  MUSTER_TRY(c.vocab_size, integer(j, "vocab_size", {}));
  MUSTER_TRY(c.hidden_size, integer(j, "hidden_size", {}));
  MUSTER_TRY(c.layers, integer(j, "num_hidden_layers", {}));
  MUSTER_TRY(c.heads, integer(j, "num_attention_heads", {}));
  MUSTER_TRY(c.kv_heads, integer(j, "num_key_value_heads", c.heads));
  MUSTER_TRY(c.head_dim, integer(j, "head_dim", c.hidden_size / c.heads));
  MUSTER_TRY(c.mlp_size, integer(j, "intermediate_size", {}));
  MUSTER_TRY(c.context, integer(j, "max_position_embeddings", 2048));
  MUSTER_TRY(c.norm_eps, number(j, "rms_norm_eps", 1e-6));
  MUSTER_TRY(c.tie_embeddings, boolean(j, "tie_word_embeddings", false));
  return read_rope(j, c);
}

Status read_gpt2(const Json& j, ModelConfig& c) {
  MUSTER_TRY(check_neutral(j, {{"scale_attn_weights", true},
                               {"scale_attn_by_inverse_layer_idx", false},
                               {"reorder_and_upcast_attn", false},
                               {"add_cross_attention", false},
                               {"quantization_config", nullptr}}));
  if (const auto it = j.find("activation_function");
      it != j.end() && *it != "gelu_new" && *it != "gelu_pytorch_tanh")
    return unsupported("activation_function", *it, "\"gelu_new\"");
  MUSTER_TRY(c.vocab_size, integer(j, "vocab_size", {}));
  MUSTER_TRY(c.hidden_size, integer(j, "n_embd", {}));
  MUSTER_TRY(c.layers, integer(j, "n_layer", {}));
  MUSTER_TRY(c.heads, integer(j, "n_head", {}));
  if (c.hidden_size % c.heads != 0)
    return Error(
        Code::invalid_argument,
        fmt::format("config.json: n_head = {} must divide n_embd = {}", c.heads, c.hidden_size));
  c.kv_heads = c.heads;
  c.head_dim = c.hidden_size / c.heads;
  MUSTER_TRY(c.mlp_size, integer(j, "n_inner", 4 * c.hidden_size));
  MUSTER_TRY(c.context, integer(j, "n_positions", 1024));
  MUSTER_TRY(c.norm_eps, number(j, "layer_norm_epsilon", 1e-5));
  MUSTER_TRY(c.tie_embeddings, boolean(j, "tie_word_embeddings", true));
  return {};
}

Result<Family> read_family(const Json& j) {
  std::string architecture, type;
  if (const auto it = j.find("architectures");
      it != j.end() && it->is_array() && !it->empty() && it->front().is_string())
    architecture = it->front().get<std::string>();
  if (const auto it = j.find("model_type"); it != j.end() && it->is_string())
    type = it->get<std::string>();
  if (architecture == "LlamaForCausalLM" || (architecture.empty() && type == "llama"))
    return Family::llama;
  if (architecture == "GPT2LMHeadModel" || (architecture.empty() && type == "gpt2"))
    return Family::gpt2;
  if (architecture.empty() && type.empty())
    return Error(Code::invalid_argument,
                 "config.json: neither architectures nor model_type names the model");
  return unsupported(architecture.empty() ? "model_type" : "architectures",
                     Json(architecture.empty() ? type : architecture),
                     "LlamaForCausalLM, GPT2LMHeadModel");
}

}  // namespace

Result<ModelConfig> parse_hf_config(std::string_view text) {
  const Json j = Json::parse(text, nullptr, false);
  if (j.is_discarded() || !j.is_object())
    return Error(Code::corrupt, "config.json: not a JSON object");
  ModelConfig config;
  MUSTER_TRY(config.family, read_family(j));
  MUSTER_TRY(config.family == Family::llama ? read_llama(j, config) : read_gpt2(j, config));
  MUSTER_TRY(config.initializer_range, number(j, "initializer_range", 0.02));
  MUSTER_TRY(config.bos_id, token_id(j, "bos_token_id"));
  MUSTER_TRY(config.eos_id, token_id(j, "eos_token_id"));
  MUSTER_TRY(validate(config).context("config.json"));
  return config;
}

std::string format_hf_config(const ModelConfig& c, std::string_view dtype) {
  nlohmann::ordered_json j;
  const bool llama = c.family == Family::llama;
  j["architectures"] = {llama ? "LlamaForCausalLM" : "GPT2LMHeadModel"};
  j["model_type"] = llama ? "llama" : "gpt2";
  j["dtype"] = dtype;
  j["torch_dtype"] = dtype;  // transformers 4 knows this name only
  j["vocab_size"] = c.vocab_size;
  if (llama) {
    j["hidden_size"] = c.hidden_size;
    j["intermediate_size"] = c.mlp_size;
    j["num_hidden_layers"] = c.layers;
    j["num_attention_heads"] = c.heads;
    j["num_key_value_heads"] = c.kv_heads;
    j["head_dim"] = c.head_dim;
    j["hidden_act"] = "silu";
    j["max_position_embeddings"] = c.context;
    j["rms_norm_eps"] = c.norm_eps;
    j["rope_theta"] = c.rope_theta;  // transformers 4; 5 reads the object below
    j["rope_parameters"] = {{"rope_theta", c.rope_theta}, {"rope_type", "default"}};
    j["attention_bias"] = false;
    j["attention_dropout"] = 0.0;
    j["mlp_bias"] = false;
  } else {
    j["n_embd"] = c.hidden_size;
    j["n_inner"] = c.mlp_size;
    j["n_layer"] = c.layers;
    j["n_head"] = c.heads;
    j["n_positions"] = c.context;
    j["n_ctx"] = c.context;
    j["activation_function"] = "gelu_new";
    j["layer_norm_epsilon"] = c.norm_eps;
    for (const char* dropout : {"resid_pdrop", "embd_pdrop", "attn_pdrop"}) j[dropout] = 0.0;
  }
  j["initializer_range"] = c.initializer_range;
  j["tie_word_embeddings"] = c.tie_embeddings;
  // Absent ids must be written as null: transformers' defaults are real tokens.
  j["bos_token_id"] = c.bos_id ? nlohmann::ordered_json(*c.bos_id) : nlohmann::ordered_json();
  j["eos_token_id"] = c.eos_id ? nlohmann::ordered_json(*c.eos_id) : nlohmann::ordered_json();
  j["use_cache"] = true;
  return j.dump(2) + "\n";
}

}  // namespace muster
