// The input is a Hugging Face config.json.
#include <string_view>

#include "base/fuzz.h"
#include "train/spec/model_config.h"

namespace muster {

std::vector<std::string> fuzz_seeds() {
  return {R"({"model_type": "llama", "vocab_size": 64, "hidden_size": 32, "num_hidden_layers": 2,
"num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 8, "intermediate_size": 48,
"max_position_embeddings": 128, "rms_norm_eps": 1e-6, "rope_theta": 10000.0,
"tie_word_embeddings": false, "hidden_act": "silu"})",
          R"({"model_type": "gpt2", "vocab_size": 64, "n_embd": 32, "n_layer": 2, "n_head": 4,
"n_positions": 128, "n_inner": null, "layer_norm_epsilon": 1e-5,
"activation_function": "gelu_new"})"};
}

}  // namespace muster

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace muster;
  const auto config = parse_hf_config({reinterpret_cast<const char*>(data), size});
  if (!config.ok()) return 0;
  // What was accepted can be written and read again.
  if (!parse_hf_config(format_hf_config(*config, "float32")).ok()) __builtin_trap();
  return 0;
}
