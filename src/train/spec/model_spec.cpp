// Parameters, units and counts of ModelSpec. Names and shapes are Hugging Face's.
#include <fmt/format.h>

#include <cmath>

#include "train/spec/block_spec.h"

namespace muster {
namespace {

int64_t align(int64_t value, int64_t to) {
  return (value + to - 1) / to * to;
}

enum class Place { aligned, follows };  // follows: no gap after the tensor before it

class Builder {
 public:
  explicit Builder(ModelSpec& spec) : spec_(spec) {}

  void unit(std::string name) { spec_.units.push_back({std::move(name), 0, {}, {}}); }

  void block(BlockKind kind, std::string name, int unit, int layer, std::vector<int> params) {
    spec_.units[unit].blocks.push_back(static_cast<int>(spec_.blocks.size()));
    spec_.blocks.push_back(
        {kind, std::move(name), unit, layer, spec_.config, spec_.real, std::move(params)});
  }

  // Adds to the newest unit; returns the index.
  int param(std::string name, Shape shape, Init init, Place place = Place::aligned) {
    UnitSpec& unit = spec_.units.back();
    Param p{std::move(name),
            std::move(shape),
            init,
            false,
            static_cast<int>(spec_.units.size()) - 1,
            0};
    p.weight_decay = p.shape.size() > 1;
    p.offset = place == Place::follows ? unit.elements : align(unit.elements, kUnitAlignment);
    unit.elements = p.offset + p.count();
    const int index = static_cast<int>(spec_.params.size());
    unit.params.push_back(index);
    spec_.params.push_back(std::move(p));
    return index;
  }

  void close_units() {
    for (UnitSpec& unit : spec_.units) unit.elements = align(unit.elements, kUnitAlignment);
  }

 private:
  ModelSpec& spec_;
};

constexpr Init kOnes{InitKind::ones, 0};
constexpr Init kZeros{InitKind::zeros, 0};

void build_llama(ModelSpec& spec) {
  const ModelConfig& c = spec.config;
  const int64_t d = c.hidden_size, q = c.heads * c.head_dim, kv = c.kv_heads * c.head_dim,
                F = c.mlp_size;
  const Init normal{InitKind::normal, c.initializer_range};
  // GPT-2's rule: the two projections that write to the residual stream start smaller, so that its
  // variance does not grow with depth.
  const Init residual{InitKind::normal,
                      c.initializer_range / std::sqrt(2.0 * static_cast<double>(c.layers))};
  Builder b(spec);
  b.unit("root");
  std::vector<int> embedding = {b.param("model.embed_tokens.weight", {c.vocab_size, d}, normal)};
  std::vector<int> head = {b.param("model.norm.weight", {d}, kOnes)};
  head.push_back(c.tie_embeddings ? embedding[0]
                                  : b.param("lm_head.weight", {c.vocab_size, d}, normal));
  b.block(BlockKind::embedding, "embedding", 0, -1, embedding);
  for (int i = 0; i < c.layers; ++i) {
    b.unit(fmt::format("layers.{}", i));
    const std::string p = fmt::format("model.layers.{}.", i);
    const std::vector<int> attention = {
        b.param(p + "input_layernorm.weight", {d}, kOnes),
        b.param(p + "self_attn.q_proj.weight", {q, d}, normal),
        b.param(p + "self_attn.k_proj.weight", {kv, d}, normal, Place::follows),
        b.param(p + "self_attn.v_proj.weight", {kv, d}, normal, Place::follows),
        b.param(p + "self_attn.o_proj.weight", {d, q}, residual),
    };
    const std::vector<int> mlp = {
        b.param(p + "post_attention_layernorm.weight", {d}, kOnes),
        b.param(p + "mlp.gate_proj.weight", {F, d}, normal),
        b.param(p + "mlp.up_proj.weight", {F, d}, normal, Place::follows),
        b.param(p + "mlp.down_proj.weight", {d, F}, residual),
    };
    b.block(BlockKind::attention, fmt::format("layers.{}.attention", i), i + 1, i, attention);
    b.block(BlockKind::mlp, fmt::format("layers.{}.mlp", i), i + 1, i, mlp);
  }
  b.block(BlockKind::head, "head", 0, -1, head);
  b.close_units();
}

void build_gpt2(ModelSpec& spec) {
  const ModelConfig& c = spec.config;
  const int64_t d = c.hidden_size, F = c.mlp_size;
  const Init normal{InitKind::normal, c.initializer_range};
  const Init residual{InitKind::normal,
                      c.initializer_range / std::sqrt(2.0 * static_cast<double>(c.layers))};
  Builder b(spec);
  b.unit("root");
  const std::vector<int> embedding = {
      b.param("transformer.wte.weight", {c.vocab_size, d}, normal),
      b.param("transformer.wpe.weight", {c.context, d}, normal),
  };
  std::vector<int> head = {
      b.param("transformer.ln_f.weight", {d}, kOnes),
      b.param("transformer.ln_f.bias", {d}, kZeros),
  };
  head.push_back(c.tie_embeddings ? embedding[0]
                                  : b.param("lm_head.weight", {c.vocab_size, d}, normal));
  b.block(BlockKind::embedding, "embedding", 0, -1, embedding);
  for (int i = 0; i < c.layers; ++i) {
    b.unit(fmt::format("layers.{}", i));
    const std::string p = fmt::format("transformer.h.{}.", i);
    const std::vector<int> attention = {
        b.param(p + "ln_1.weight", {d}, kOnes),
        b.param(p + "ln_1.bias", {d}, kZeros),
        b.param(p + "attn.c_attn.weight", {d, 3 * d}, normal),
        b.param(p + "attn.c_attn.bias", {3 * d}, kZeros),
        b.param(p + "attn.c_proj.weight", {d, d}, residual),
        b.param(p + "attn.c_proj.bias", {d}, kZeros),
    };
    const std::vector<int> mlp = {
        b.param(p + "ln_2.weight", {d}, kOnes),
        b.param(p + "ln_2.bias", {d}, kZeros),
        b.param(p + "mlp.c_fc.weight", {d, F}, normal),
        b.param(p + "mlp.c_fc.bias", {F}, kZeros),
        b.param(p + "mlp.c_proj.weight", {F, d}, residual),
        b.param(p + "mlp.c_proj.bias", {d}, kZeros),
    };
    b.block(BlockKind::attention, fmt::format("layers.{}.attention", i), i + 1, i, attention);
    b.block(BlockKind::mlp, fmt::format("layers.{}.mlp", i), i + 1, i, mlp);
  }
  b.block(BlockKind::head, "head", 0, -1, head);
  b.close_units();
}

}  // namespace

int64_t element_count(const Shape& shape) {
  int64_t count = 1;
  for (int64_t size : shape) count *= size;
  return count;
}

int64_t visible_pairs(int64_t length, int64_t window) {
  if (window <= 0 || window >= length) return length * (length + 1) / 2;
  return window * length - window * (window - 1) / 2;
}

Workload Workload::causal(int64_t sequences, int64_t length) {
  return {sequences * length, sequences * visible_pairs(length, 0)};
}

Result<ModelSpec> make_model_spec(const ModelConfig& config, Real real) {
  MUSTER_TRY(validate(config));
  ModelSpec spec;
  spec.config = config;
  spec.real = real;
  if (config.family == Family::llama)
    build_llama(spec);
  else
    build_gpt2(spec);
  return spec;
}

int64_t ModelSpec::parameter_count() const {
  int64_t count = 0;
  for (const Param& p : params) count += p.count();
  return count;
}

int64_t ModelSpec::matmul_parameter_count() const {
  const int64_t head = config.vocab_size * config.hidden_size;
  int64_t count = head;
  for (const Param& p : params)
    if (p.unit > 0 && p.shape.size() > 1) count += p.count();
  return count;
}

int64_t ModelSpec::buffer_elements() const {
  int64_t count = 0;
  for (const UnitSpec& unit : units) count += unit.elements;
  return count;
}

const Param* ModelSpec::find(std::string_view name) const {
  for (const Param& p : params)
    if (p.name == name) return &p;
  return nullptr;
}

int64_t ModelSpec::training_flops(const Workload& work) const {
  return muster::training_flops(matmul_parameter_count(), work.tokens,
                                config.layers * config.heads * config.head_dim * work.pairs);
}

}  // namespace muster
